"""Programs under their own tests"""
from row import Row

# Debian's redis-tools holds the server too, under another name; it goes by the name it is called with.
REDIS = r"""
cp -r $SOURCES/redis/tests $SOURCES/redis/runtest . && mkdir src
for name in server cli benchmark check-rdb check-aof; do
  program=$(command -v redis-$name || command -v redis-check-rdb); ln -s "$program" src/redis-$name
done
"""

MARIADB = r"""
chmod 777 "$HOME"; mkdir -m 777 tmp
cd /usr/share/mysql/mysql-test
unprivileged env HOME="$HOME" perl ./mysql-test-run.pl --vardir="$HOME/var" --tmpdir="$HOME/tmp" --force --max-test-fail=0 \
  --parallel=2 --suite=main --skip-rpl --nocheck-testcases \
  $(for test in bigint binary_to_hex case cast count_distinct cte_recursive date_formats delete derived distinct func_group func_str \
    func_json group_by having heap insert_select join_outer key limit null_key order_by parser select sp-error subselect temp_table \
    trigger type_blob union update view; do [ ! -e main/$test.test ] || echo $test; done) \
  >"$HOME/log" 2>&1 || true
grep -E '\[ (pass|fail) \]' "$HOME/log" | sed -E 's/ w[0-9]+ / /; s/ +[0-9]+$//; s/ +/ /g' | sort
grep -qE '\[ pass \]' "$HOME/log" || { tail -20 "$HOME/log"; exit 1; }
"""

# The regression tests of the server itself. regress.so comes with them in C.
POSTGRES = r"""
chmod 777 .
bin=$(echo /usr/lib/postgresql/*/bin)
PATH=$bin:$PATH
unprivileged $bin/initdb -D data -U postgres -A trust -N >/dev/null
unprivileged $bin/pg_ctl -s -D data -w -l log -o "-k $PWD -c listen_addresses= -c fsync=off" start
trap 'unprivileged $bin/pg_ctl -s -D $HOME/data -m immediate stop' EXIT
active "$(head -1 data/postmaster.pid)"
cp -r $SOURCES/postgresql-15/src/test/regress regress && chmod -R a+rwX regress && cd regress
export PG_ABS_SRCDIR=$PWD PG_LIBDIR=$(echo /usr/lib/postgresql/*/lib) PG_DLSUFFIX=.so PG_ABS_BUILDDIR=$PWD PGHOST=$HOME PGUSER=postgres
psql="$bin/psql -X -a -q -d regression -v HIDE_TABLEAM=on -v HIDE_TOAST_COMPRESSION=on"
$bin/createdb -T template0 -E UTF8 --locale=C regression
for setting in "lc_messages = 'C'" "timezone = 'PST8PDT'" "datestyle = 'postgres, mdy'" "intervalstyle = 'postgres_verbose'"; do
  $bin/psql -X -q -d regression -c "alter database regression set $setting"
done
for name in boolean char name varchar text int2 int4 int8 float8 bit numeric uuid enum money rangetypes strings numerology \
  point lseg line box path polygon circle date time timetz timestamp timestamptz interval inet macaddr multirangetypes \
  create_table copy insert create_view typed_table select_into select_distinct select_having subselect union case \
  transactions arrays hash_func delete namespace prepared_xacts update matview json jsonb json_encoding jsonpath \
  plancache limit plpgsql copy2 temp rangefuncs prepare conversion truncate alter_table sequence polymorphism rowtypes returning \
  largeobject with xml window domain guc bitmapops combocid tsearch tsdicts foreign_data; do
  [ -e sql/$name.sql ] || continue
  $psql -f sql/$name.sql >out 2>&1 || true
  echo "$name $(sed -E 's/0x[0-9a-f]+//g; s/[0-9.]+ ms//g; s/\([0-9]{5,}\)//g' out | cksum)"
done
"""

PYTHON = r"""
active self
/usr/bin/python3 -m test -j2 --timeout 90 test_json test_re test_dict test_list test_set test_unicode test_bytes test_array test_bigmem \
  test_bz2 test_lzma test_zlib test_zipfile test_tarfile test_collections test_copy test_ctypes test_datetime test_deque \
  test_descr test_email test_exceptions test_format test_functools test_gc test_generators test_hashlib test_heapq test_io \
  test_itertools test_long test_marshal test_math test_memoryview test_mmap test_pickle test_queue test_sort test_sqlite3 test_ssl \
  test_statistics test_str test_string test_struct test_subprocess test_sys test_thread test_threading test_traceback test_tuple \
  test_types test_weakref test_xml_etree test_xml_etree_c test_capi test_embed >log 2>&1 || true
sed -nE 's/^[0-9:]+ load avg: [0-9.]+ //; s/^\[ *[0-9]+\/[0-9]+(\/[0-9]+)?\] ([a-z_0-9]+) (passed|failed|skipped).*/\2 \3/p' log | sort
grep -E '^(FAIL|ERROR):' log | sort || true
grep -q passed log || { tail log; exit 1; }
"""

ROWS = [
    Row("php-tests", "PHP 8.2: the tests of json, dom, sqlite3, zip and bcmath; extensions are loaded with deep binding", r"""
cat >active.php <<'END'
<?php $library = getenv("PRELOADED"); if ($library && !str_contains(file_get_contents("/proc/self/maps"), $library)) exit(99);
END
php8.2 active.php
cp -r $SOURCES/php8.2/ext . && cp $SOURCES/php8.2/run-tests.php .
export NO_INTERACTION=1 TEST_PHP_EXECUTABLE=/usr/bin/php8.2
php8.2 run-tests.php -q -j2 --no-color ext/{json,dom,sqlite3,zip,bcmath}/tests >log 2>&1 || true
grep -E '^Tests (passed|failed|skipped)' log | sed 's/(.*//' || { tail log; exit 1; }
grep -E '^FAIL' log | sort || true
""", packages="php8.2-cli php8.2-xml php8.2-sqlite3 php8.2-zip php8.2-bcmath", sources="php8.2", limit_s=240),
    Row("php", "scripts with mbstring, intl, gd, gmp, curl, opcache and sockets", r"""
cat >work.php <<'END'
<?php
mt_srand(7);
$words = []; for ($i = 0; $i < 200000; $i++) $words[] = str_repeat(chr(97 + mt_rand() % 26), mt_rand() % 60);
echo count(array_unique($words)), " ", md5(implode(",", $words)), "\n";
$doc = new DOMDocument(); $root = $doc->appendChild($doc->createElement("r"));
for ($i = 0; $i < 20000; $i++) $root->appendChild($doc->createElement("e", "v$i"))->setAttribute("id", "$i");
echo md5($doc->saveXML()), " ", (new DOMXPath($doc))->query("//e[@id > 100]")->length, "\n";
$db = new PDO("sqlite::memory:"); $db->exec("create table t(a integer, b text)");
$put = $db->prepare("insert into t values(?, ?)"); for ($i = 0; $i < 20000; $i++) $put->execute([$i, str_repeat("x", $i % 200)]);
echo $db->query("select sum(length(b)) from t where a % 3 = 0")->fetchColumn(), "\n";
echo mb_strtoupper("äöü straße"), " ", mb_convert_encoding("äöü", "UTF-16", "UTF-8") === "\0\xe4\0\xf6\0\xfc" ? "ok" : "no", "\n";
echo (new Collator("de_DE"))->compare("ä", "b"), " ", (new NumberFormatter("de_DE", NumberFormatter::DECIMAL))->format(1234567.891), "\n";
$image = imagecreatetruecolor(400, 300); for ($i = 0; $i < 300; $i++) imageline($image, 0, $i, 399, 299 - $i, $i * 70000);
ob_start(); imagepng(imagescale($image, 200)); echo md5(ob_get_clean()), "\n";
echo gmp_strval(gmp_pow(gmp_init(3), 2000), 36), "\n", json_encode(json_decode(json_encode(range(1, 30000)))) === json_encode(range(1, 30000)) ? "ok" : "no", "\n";
echo curl_version()["version"] !== "" && strlen(gzcompress(str_repeat("abc", 100000))) > 0 ? "ok" : "no", "\n";
echo preg_replace_callback('/\d+/', fn($m) => $m[0] * 2, implode(" ", range(1, 50))), "\n";
END
php8.2 work.php
php8.2 -d opcache.enable_cli=1 work.php | cksum
""", packages="php8.2-cli php8.2-mbstring php8.2-xml php8.2-sqlite3 php8.2-gd php8.2-intl php8.2-curl php8.2-opcache php8.2-gmp",
        limit_s=60, peers=True),
    Row("redis-tests", "redis 7.0: its own tests of types, scripts, transactions and sorting", REDIS + r"""
port=$(free_port)
./runtest --clients 2 --baseport $((20000 + port % 20000)) --portcount 2000 --tags -needs:debug --single unit/type/string \
  --single unit/type/hash --single unit/type/set --single unit/type/list --single unit/type/zset --single unit/type/incr --single unit/scripting \
  --single unit/sort --single unit/scan --single unit/multi --single unit/pubsub >log 2>&1 || true
grep -aE '^\[(ok|err|exception)\]' log | sed -E 's/ \([0-9.]+ (ms|seconds)\)//' | sort
grep -aq '^\[ok\]' log || { tail log; exit 1; }
""", packages="redis-tools tcl", sources="redis", limit_s=240),
    Row("mariadb-tests", "MariaDB 10.11: some thirty of its own test files", MARIADB, limit_s=240,
        packages="mariadb-server-core mariadb-server mariadb-client-core mariadb-test"),
    Row("postgresql-tests", "PostgreSQL 15: most files of its regression tests, output compared", POSTGRES, packages="postgresql",
        sources="postgresql-15", limit_s=240),
    Row("python-tests", "CPython 3.11: fifty files of its own tests", PYTHON, packages="libpython3.11-testsuite", limit_s=300),
    Row("numpy-tests", "numpy 1.24: its tests of core, lib and linalg without the slow ones", r"""
active self
for part in core.tests.test_multiarray  core.tests.test_regression linalg.tests.test_linalg lib.tests.test_function_base; do
  /usr/bin/python3 -m pytest -q -p no:cacheprovider -m 'not slow' --pyargs numpy.$part >log 2>&1 || true
  grep -E '^(FAILED|ERROR)' log | sed 's/ - .*//' | sort || true
  echo "$part $(tail -1 log | sed -E 's/, [0-9]+ warnings?//; s/ in [0-9.]+s.*//')"
done
""", packages="python3-numpy python3-pytest python3-hypothesis", limit_s=240),
]
