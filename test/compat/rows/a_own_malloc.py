"""Programs that bring their own malloc, and libraries in front of it"""
from row import Row

CALLS = "active self; $COMMON/program"

ROWS = [
    Row("static-jemalloc", "jemalloc linked in; every function of libc that hands out a block", CALLS,
        packages="libjemalloc-dev", quick=True, peers=True, limit_s=60,
        setup="cc -O1 $SRC/libc_calls.c /usr/lib/*/libjemalloc.a -o program -lpthread -ldl -lm -lstdc++"),
    Row("static-tcmalloc", "tcmalloc linked in, the same", CALLS, packages="libgoogle-perftools-dev", quick=True, peers=True, limit_s=60,
        setup="""c++ -O1 -x c -c $SRC/libc_calls.c -o calls.o
c++ calls.o -Wl,--whole-archive /usr/lib/*/libtcmalloc_minimal.a -Wl,--no-whole-archive -o program -lpthread"""),
    Row("own-malloc", "a malloc of the program's own, the same", CALLS, quick=True, peers=True, limit_s=60,
        setup="cc -O1 $SRC/libc_calls.c $SRC/own_malloc.c -fno-builtin -o program -lpthread"),
    Row("own-malloc-exported", "the same, exported with -rdynamic, as Chromium does", CALLS, quick=True, peers=True, limit_s=60,
        setup="cc -O1 $SRC/libc_calls.c $SRC/own_malloc.c -fno-builtin -rdynamic -o program -lpthread"),
    Row("own-new", "operator new and delete of the program's own, with a header", CALLS, quick=True, peers=True, limit_s=60,
        setup="c++ -O1 -std=c++17 $SRC/header_new.cpp -o program"),
    Row("interposer", "a library in front that counts malloc and free and passes them on", """
export LD_PRELOAD=$COMMON/interposer.so${LD_PRELOAD:+:$LD_PRELOAD}
/usr/bin/python3 -c 'import json, re, threading; print(sum(len(json.dumps({i: "x" * i})) for i in range(2000)))'
sort --parallel=4 /usr/include/*.h | cksum
""", peers=True, quick=True, setup="cc -O1 -shared -fPIC $SRC/interposer.c -o interposer.so -ldl", limit_s=60),
    Row("answers", "what realloc(p, 0), malloc(0), memalign(48) and their like answer", CALLS, peers=True, quick=True, limit_s=60,
        setup="cc -O0 -fno-builtin -w $SRC/answers.c -o program"),
]
