module libmimalloc/mimalloc

go 1.18
