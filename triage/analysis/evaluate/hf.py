"""Model configurations: what transformers would answer for a model whose config.json was captured.

A config object holds the file's keys, then the literal defaults of the config class of its `model_type`, read from the
transformers source beside the package when that is in the tree. Nested objects of the file are config objects too. What a
class computes is unknown. Without that source a name that the file does not hold is taken to be absent in `getattr` and
`hasattr`, and unknown when it is read outright (then the class surely has it).
"""

from __future__ import annotations

import json
import os.path
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from triage.analysis.evaluate.hf_classes import ConfigClass, read_class
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
        """AutoConfig (transformers/models/auto/configuration_auto.py): code of the repository where it may run, then
        classes that the package registered, then transformers' own; another model type is refused."""
        args = args or [named.get("pretrained_model_name_or_path")]
        data = self.load_checked(w, args, named)
        model_type = data.get("model_type") if data is not None else None
        if data is None or not isinstance(model_type, str):
            return self.from_pretrained(w, args, named)
        held = self.registered.get(model_type)
        auto_map = data.get("auto_map")
        if isinstance(auto_map, dict) and "AutoConfig" in auto_map:
            local = True if held is not None else self.knows_type(model_type)
            remote = self.remote_code(
                w, str(args[0]), auto_map["AutoConfig"], named.get("trust_remote_code"), local, held is not None
            )
            if remote is not None:
                return remote
        if isinstance(held, Class):
            return w.call(held, [], {"_name_or_path": args[0], **data})
        if held is None and self.knows_type(model_type) is False:
            text = f"The checkpoint you are trying to load has model type `{model_type}`, which this Transformers does not know."
            raise TargetRaise(ValueError, (text,))
        return self.from_pretrained(w, args, named)

    def remote_code(
        self, w: Machine, path: str, reference: Value, trust: Value, local: bool | None, explicit: bool
    ) -> Value | None:
        """What loading a model with code of its own does (transformers/dynamic_module_utils.py); None: its code is not used."""
        truth = w.truth(trust)
        if truth is False:
            if local is False:
                text = f"The repository {path} contains custom code which must be executed to correctly load the model."
                raise TargetRaise(ValueError, (text,))
            return None if local else Unknown(f"config of {path}", "whether transformers knows the model type is not known")
        source = self.world.program.tree.read("transformers/models/auto/configuration_auto.py")
        if explicit and source is not None and b"explicit_local_code" in source:
            return None
        module = str(reference).rpartition("--")[2].partition(".")[0]
        listed = w.listings.get(path)
        if truth is True and "--" not in str(reference) and listed is not None and f"{module}.py" not in listed:
            raise TargetRaise(OSError, (f"{path} does not appear to have a file named {module}.py.",))
        return Unknown(f"config of {path}", f"{path} brings code of its own, {reference}, which is not evaluated")

    def load_checked(self, w: Machine, args: list[Value], named: dict[str, Value]) -> dict[str, Any] | None:
        """As `load`; refused where another name than config.json is asked for in a folder that surely does not hold it."""
        name = named.get("_configuration_file")
        path = w.plain_of(args[0]) if args else None
        if not isinstance(name, str) or os.path.normpath(name) == "config.json":
            return self.load(args)
        listed = w.listings.get(path) if isinstance(path, str) else None
        if listed is not None and os.path.normpath(name) not in listed:
            raise TargetRaise(OSError, (f"{path} does not appear to have a file named {name}.",))
        return None

    def knows_type(self, model_type: str) -> bool | None:
        """Whether the installed transformers lists the model type; None when its source is not in the tree."""
        tree = self.world.program.tree
        texts = [tree.read(f"transformers/models/auto/{name}.py") for name in ("configuration_auto", "auto_mappings")]
        if texts[0] is None:
            return None
        return any(text is not None and f'"{model_type}"'.encode() in text for text in texts)

    def from_pretrained(self, w: Machine, args: list[Value], named: dict[str, Value]) -> Value:
        args = args or [named.get("pretrained_model_name_or_path")]
        data = self.load_checked(w, args, named)
        if data is None:
            return Unknown(f"config of {args[0]}", "the model's config.json was not captured")
        return self.make(data, str(args[0]))

    def get_config_dict(self, w: Machine, args: list[Value], named: dict[str, Value]) -> Value:
        data = self.load_checked(w, args, named)
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
        elif not isinstance(more, Unknown):  # transformers walks `more.items()`
            raise TargetRaise(AttributeError, (f"'{self.world.type_name(more)}' object has no attribute 'items'",))
        return None

    # ------------------------------------------------ classes
    def config_class(self, model_type: str) -> ConfigClass | None:
        """The config class of a model type, from transformers' own source; None where that is not in the tree."""
        if model_type not in self.classes:
            self.classes[model_type] = read_class(self.world.program, model_type)
        return self.classes[model_type]
