"""Ways of loading: deep binding, namespaces, auditors"""
from row import Row

ROWS = [
    Row("deepbind", "a plug-in in C++ loaded with RTLD_DEEPBIND shares blocks with the program", "$COMMON/host $COMMON/plugin.so 500",
        quick=True, peers=True, limit_s=60, setup="""cc -O1 $SRC/host.c -o host -ldl
c++ -O1 -std=c++17 -shared -fPIC $SRC/plugin.cpp -o plugin.so"""),
    Row("dlmopen", "a thread made in another linker namespace allocates in the program's (glibc's own malloc fails)",
        "$COMMON/host $COMMON/plugin.so", expect="blocks are right\n", peers=True, quick=True, limit_s=60, setup="""cc -O1 $SRC/namespace_host.c -o host -ldl
cc -O1 -shared -fPIC $SRC/namespace_plugin.c -o plugin.so -lpthread"""),
    Row("audit", "an auditor (LD_AUDIT) allocates in its own namespace", """
export LD_AUDIT=$COMMON/audit.so
/usr/bin/python3 -c 'import threading, json, ssl, sqlite3; print(len(json.dumps(list(range(10000)))))'
perl -e 'use POSIX; use Socket; print join(",", map { $_ * 3 } 1 .. 1000), "\\n"' | cksum
""", peers=True, limit_s=60, packages="perl", quick=True,
        setup="cc -O1 -shared -fPIC $SRC/audit.c -o audit.so"),
    Row("tsan", "a program under ThreadSanitizer", "$COMMON/program", limit_s=60, quick=True,
        setup="cc -O1 -fsanitize=thread $SRC/races.c -o program -lpthread"),
]
