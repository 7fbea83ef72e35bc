"""Model configurations: what transformers would answer for a model whose config.json was captured.

A config object holds the file's keys, then the literal defaults of the config class of its `model_type`, read from the
transformers source beside the package when that is in the tree. Nested objects of the file are config objects too. What a
class computes is unknown. Without that source a name that the file does not hold is taken to be absent in `getattr` and
`hasattr`, and unknown when it is read outright (then the class surely has it).
"""

from __future__ import annotations

import ast
import json
import os.path
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from triage.analysis.evaluate.values import ABSENT, Class, External, Instance, Native, TargetRaise, Unknown, Value

if TYPE_CHECKING:
    from triage.analysis.evaluate.machine import Machine

CONFIG = External("transformers.PretrainedConfig")
# transformers/configuration_utils.py: what every config has when the file says nothing
_COMMON: dict[str, Value] = {
    "architectures": None, "model_type": "", "tie_word_embeddings": True, "is_encoder_decoder": False, "torch_dtype": None,
    "dtype": None, "problem_type": None, "bos_token_id": None, "eos_token_id": None, "pad_token_id": None,
    "tokenizer_class": None, "id2label": {}, "label2id": {}, "return_dict": True, "output_hidden_states": False,
    "output_attentions": False, "use_cache": True, "transformers_version": None,
}  # fmt: skip
_SUBCONFIGS = (
    "text_config",
    "vision_config",
    "audio_config",
    "thinker_config",
    "talker_config",
    "llm_config",
    "language_config",
    "speech_config",
)
_ROPE = ("rope_scaling", "rope_parameters", "rope_theta")


@dataclass(frozen=True)
class ConfigClass:
    """A config class as its source declares it: literal defaults, names that it computes, names that stand for others."""

    defaults: dict[str, Value]
    computed: frozenset[str]
    aliases: dict[str, str]
    parts: dict[str, str]  # sub-config name -> class name


class HfConfigs:
    def __init__(self, world: Machine) -> None:
        self.world = world
        self.registered: dict[str, Value] = {}
        self.classes: dict[str, ConfigClass | None] = {}

    def handlers(self) -> dict[str, Callable[..., Value]]:
        return {
            "transformers.AutoConfig.from_pretrained": self.auto_config,
            "transformers.AutoConfig.register": self.register,
            "transformers.PretrainedConfig.from_pretrained": self.from_pretrained,
            "transformers.PretrainedConfig.get_config_dict": self.get_config_dict,
            "transformers.PretrainedConfig": self.new_config,
            "transformers.GenerationConfig.from_pretrained": self.generation_config,
        }

    # ------------------------------------------------ files
    def find(self, path: Value) -> str | None:
        if isinstance(path, Instance) and "__plain__" in path.attrs:
            path = path.attrs["__plain__"]
        if not isinstance(path, str):
            return None
        text = self.world.files.read(os.path.join(path, "config.json")) or self.world.files.read(path)
        return text if isinstance(text, str) else None

    def load(self, args: list[Value]) -> dict[str, Any] | None:
        text = self.find(args[0] if args else None)
        if text is None:
            return None
        try:
            data = json.loads(text)
        except (ValueError, RecursionError):
            return None
        return data if isinstance(data, dict) else None

    def register(self, w: Machine, args: list[Value], named: dict[str, Value]) -> Value:
        if len(args) > 1 and isinstance(args[0], str):
            self.registered[args[0]] = args[1]
        return None

    def auto_config(self, w: Machine, args: list[Value], named: dict[str, Value]) -> Value:
        """AutoConfig: registered classes first; a model type that this transformers does not know is refused."""
        args = args or [named.get("pretrained_model_name_or_path")]
        data = self.load(args)
        model_type = data.get("model_type") if data is not None else None
        if isinstance(model_type, str) and data is not None:
            held = self.registered.get(model_type)
            if isinstance(held, Class):
                return w.call(held, [], {"_name_or_path": args[0], **data})
            if held is None and "auto_map" not in data and self.knows_type(model_type) is False:
                text = f"The checkpoint you are trying to load has model type `{model_type}` but Transformers does not recognize this architecture."
                raise TargetRaise(ValueError, (text,))
        return self.from_pretrained(w, args, named)

    def knows_type(self, model_type: str) -> bool | None:
        """Whether the installed transformers lists the model type; None when its source is not in the tree."""
        tree = self.world.program.tree
        texts = [tree.read(f"transformers/models/auto/{name}.py") for name in ("configuration_auto", "auto_mappings")]
        if texts[0] is None:
            return None
        return any(text is not None and f'"{model_type}"'.encode() in text for text in texts)

    def from_pretrained(self, w: Machine, args: list[Value], named: dict[str, Value]) -> Value:
        args = args or [named.get("pretrained_model_name_or_path")]
        data = self.load(args)
        if data is None:
            return Unknown(f"config of {args[0]}", "the model's config.json was not captured")
        return self.make(data, str(args[0]))

    def get_config_dict(self, w: Machine, args: list[Value], named: dict[str, Value]) -> Value:
        data = self.load(args)
        if data is None:
            return (Unknown("config dict", "the model's config.json was not captured"), {})
        return (data, {})

    def new_config(self, w: Machine, args: list[Value], named: dict[str, Value]) -> Value:
        return self.make(dict(named), "")

    def generation_config(self, w: Machine, args: list[Value], named: dict[str, Value]) -> Value:
        path = args[0] if args else None
        if isinstance(path, str) and w.path_kind(os.path.join(path, "generation_config.json")) == "absent":
            raise TargetRaise(OSError, (f"{path} does not appear to have a file named generation_config.json.",))
        return Unknown("generation config", "the model's generation_config.json is not read")

    # ------------------------------------------------ config classes that the package defines itself
    def is_config_class(self, cls: Class) -> bool:
        return any(
            b.path.startswith("transformers.") and b.path.endswith(("PretrainedConfig", "PreTrainedConfig", "Config"))
            for b in cls.external_bases()
        )

    def is_config(self, obj: Instance) -> bool:
        return obj.cls is CONFIG or (isinstance(obj.cls, Class) and self.is_config_class(obj.cls))

    def class_method(self, cls: Class, name: str) -> Value | None:
        """`from_pretrained`, `from_dict` and `get_config_dict` of such a class."""

        def from_pretrained(w: Machine, args: list[Value], named: dict[str, Value]) -> Value:
            data = self.load(args)
            if data is None:
                return Unknown(f"config of {args[0] if args else '?'}", "the model's config.json was not captured")
            return w.call(cls, [], {"_name_or_path": args[0], **data})

        def from_dict(w: Machine, args: list[Value], named: dict[str, Value]) -> Value:
            data = args[0] if args else None
            return (
                w.call(cls, [], dict(data))
                if isinstance(data, dict)
                else Unknown(f"{cls.name}.from_dict()", "its keys are not known")
            )

        table = {"from_pretrained": from_pretrained, "from_dict": from_dict, "get_config_dict": self.get_config_dict}
        return Native(name, table[name]) if name in table else None

    # ------------------------------------------------ objects
    def make(self, data: dict[str, Any], path: str) -> Instance:
        """A config object of the file's content."""
        attrs: dict[str, Value] = {}
        for key, value in data.items():
            attrs[key] = self.make(value, "") if key in _SUBCONFIGS and isinstance(value, dict) else value
        if "torch_dtype" in attrs or "dtype" in attrs:
            name = attrs.get("dtype", attrs.get("torch_dtype"))
            attrs["torch_dtype"] = attrs["dtype"] = External(f"torch.{name}") if isinstance(name, str) else name
        attrs.setdefault("_name_or_path", path)
        return Instance(CONFIG, attrs, opaque=f"config of {path or data.get('model_type', 'model')}")

    def attribute(self, obj: Instance, name: str, outright: bool = True) -> tuple[Value] | None:
        """(value,) of an attribute that the file does not hold."""
        method = self.method(obj, name)
        if method is not None:
            return (method,)
        model_type = obj.attrs.get("model_type")
        known = self.config_class(model_type) if isinstance(model_type, str) else None
        if known is not None and name == "text_config" and name in known.parts:
            flat = {k: v for k, v in obj.attrs.items() if k not in _SUBCONFIGS and k != "_name_or_path"}
            made = Instance(CONFIG, {**flat, "model_type": f"{model_type}_text"}, opaque=f"text config of {obj.opaque}")
            self.world.heap.set(obj.attrs, name, made)
            return (made,)
        if known is not None:
            alias = known.aliases.get(name)
            if alias is not None and alias in obj.attrs:
                return (obj.attrs[alias],)
            if name in known.defaults:
                return (known.defaults[name],)
            if name in known.computed or name in _ROPE:
                return (Unknown(f"{obj.opaque}.{name}", "transformers computes it when the config is loaded"),)
        if name in _COMMON:
            return (_COMMON[name],)
        if known is None and outright and not name.startswith("_"):
            return (Unknown(f"{obj.opaque}.{name}", f"config.json does not hold {name}; transformers has a default"),)
        return (ABSENT,)

    def method(self, obj: Instance, name: str) -> Value | None:
        def get(w: Machine, a: list[Value], n: dict[str, Value]) -> Value:
            return obj.attrs.get(a[0], a[1] if len(a) > 1 else None)

        table: dict[str, Callable[..., Value]] = {
            "get_text_config": lambda w, a, n: obj.attrs.get("text_config", obj),
            "to_dict": lambda w, a, n: self.to_dict(obj),
            "update": lambda w, a, n: self.update(obj, a[0]),
            "get": get,
        }
        run = table.get(name)
        return Native(name, run) if run is not None else None

    def to_dict(self, obj: Instance) -> Value:
        return {k: self.to_dict(v) if isinstance(v, Instance) and self.is_config(v) else v for k, v in obj.attrs.items()}

    def update(self, obj: Instance, more: Value) -> Value:
        if isinstance(more, dict):
            for key, value in more.items():
                self.world.heap.set(obj.attrs, key, value)
        return None

    # ------------------------------------------------ classes
    def config_class(self, model_type: str) -> ConfigClass | None:
        """The config class of a model type, from transformers' own source; None where that is not in the tree."""
        if model_type not in self.classes:
            self.classes[model_type] = self.read_class(model_type)
        return self.classes[model_type]

    def read_class(self, model_type: str) -> ConfigClass | None:
        parts = model_type.replace("-", "_").split("_")
        for size in range(len(parts), 0, -1):
            folder = "_".join(parts[:size])
            data = self.world.program.tree.read(f"transformers/models/{folder}/configuration_{folder}.py")
            if data is None:
                continue
            tree = self.world.program.parse(f"transformers/models/{folder}/configuration_{folder}.py", data)
            classes = {n.name: n for n in tree.body if isinstance(n, ast.ClassDef)} if tree is not None else {}
            for node in classes.values():
                if _literal(_class_value(node, "model_type")) == model_type:
                    return _read(node, classes)
        return None


def _class_value(node: ast.ClassDef, name: str) -> ast.expr | None:
    for item in node.body:
        if isinstance(item, ast.Assign) and any(isinstance(t, ast.Name) and t.id == name for t in item.targets):
            return item.value
        if isinstance(item, ast.AnnAssign) and isinstance(item.target, ast.Name) and item.target.id == name:
            return item.value
    return None


def _literal(node: ast.expr | None) -> Value:
    if node is None:
        return ABSENT
    try:
        return ast.literal_eval(node)
    except (ValueError, TypeError, SyntaxError, RecursionError):
        return ABSENT


def _read(node: ast.ClassDef, classes: dict[str, ast.ClassDef]) -> ConfigClass:
    defaults: dict[str, Value] = {}
    computed: set[str] = set()
    for base in node.bases:
        if isinstance(base, ast.Name) and base.id in classes and base.id != node.name:
            inherited = _read(classes[base.id], classes)
            defaults.update(inherited.defaults)
            computed |= inherited.computed
    for item in node.body:
        if isinstance(item, ast.AnnAssign) and isinstance(item.target, ast.Name):
            _note(defaults, computed, item.target.id, item.value)
        elif isinstance(item, ast.Assign):
            for target in item.targets:
                if isinstance(target, ast.Name):
                    _note(defaults, computed, target.id, item.value)
        elif isinstance(item, ast.FunctionDef) and item.name in ("__init__", "__post_init__"):
            given = dict(zip([a.arg for a in item.args.args][::-1], item.args.defaults[::-1], strict=False))
            for child in ast.walk(item):
                if isinstance(child, ast.Assign):
                    for target in child.targets:
                        if isinstance(target, ast.Attribute) and isinstance(target.value, ast.Name) and target.value.id == "self":
                            source = child.value
                            if isinstance(source, ast.Name) and source.id == target.attr and source.id in given:
                                _note(defaults, computed, target.attr, given[source.id])
                            elif target.attr not in defaults:
                                computed.add(target.attr)
        elif isinstance(item, ast.FunctionDef) and any(
            isinstance(d, ast.Name) and d.id == "property" for d in item.decorator_list
        ):
            computed.add(item.name)
    aliases = _literal(_class_value(node, "attribute_map"))
    parts: dict[str, str] = {}
    sub = _class_value(node, "sub_configs")
    if isinstance(sub, ast.Dict):
        for key, value in zip(sub.keys, sub.values, strict=True):
            if isinstance(key, ast.Constant) and isinstance(value, ast.Name):
                parts[str(key.value)] = value.id
    return ConfigClass(defaults, frozenset(computed - set(defaults)), aliases if isinstance(aliases, dict) else {}, parts)


def _note(defaults: dict[str, Value], computed: set[str], name: str, node: ast.expr | None) -> None:
    value = _literal(node)
    if value is ABSENT:
        computed.add(name)
        defaults.pop(name, None)
    else:
        defaults[name] = value
