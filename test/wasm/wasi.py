"""Runs a WASI program under wasmtime: wasi.py PROGRAM [ARGUMENT...]. Its environment is that of this process."""
import os
import sys

import wasmtime

engine = wasmtime.Engine()
config = wasmtime.WasiConfig()
config.argv, config.env = sys.argv[1:], list(os.environ.items())
config.inherit_stdout()
config.inherit_stderr()
store, linker = wasmtime.Store(engine), wasmtime.Linker(engine)
store.set_wasi(config)
linker.define_wasi()
instance = linker.instantiate(store, wasmtime.Module.from_file(engine, sys.argv[1]))
try:
    instance.exports(store)["_start"](store)
except wasmtime.ExitTrap as end:
    sys.exit(end.code)
