"""PURE: a capture in, a diagnosis out (`diagnose.diagnose`). Reads the capture's files and nothing else; never imports or
runs the target. Each module is imported by its name: parts are needed without the whole."""
