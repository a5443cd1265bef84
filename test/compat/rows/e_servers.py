"""Servers"""
from row import Row

MEMCACHED = r"""
chmod 777 .
unprivileged memcached %s -s $PWD/socket -m 64 -t 4 &
server=$!
trap 'kill $server; wait' EXIT
await test -S socket
active $server
cat >client.py <<'END'
import socket
s = socket.socket(socket.AF_UNIX); s.connect("socket"); f = s.makefile("rwb")
for i in range(30000):
    v = b"x" * (i %% 3000)
    f.write(b"set k%%d 0 0 %%d noreply\r\n%%s\r\n" %% (i %% 9000, len(v), v))
f.flush(); total = 0
for i in range(9000):
    f.write(b"get k%%d\r\n" %% i); f.flush()
    line = f.readline()
    if line.startswith(b"VALUE"): total += len(f.read(int(line.split()[3]) + 2)); f.readline()
print("got", total > 10 << 20)
END
/usr/bin/python3 client.py
echo "FIGURE $(($(resident $server) / 1024)) MiB resident"
if [ "$(resident $server)" -gt 250000 ]; then echo "too much is resident"; exit 1; fi
"""

POSTGRES = r"""
chmod 777 .
bin=$(echo /usr/lib/postgresql/*/bin)
unprivileged $bin/initdb -D data -U postgres -A trust -N >/dev/null
unprivileged $bin/pg_ctl -s -D data -w -l log -o "-k $PWD -c listen_addresses= -c fsync=off" start
trap 'unprivileged $bin/pg_ctl -s -D $HOME/data -m fast stop' EXIT
active "$(head -1 data/postmaster.pid)"
export PGHOST=$PWD PGUSER=postgres
"""

# A server that answers over HTTP on $port: asked by some connections at once.
ASK = r"""
cat >ask.py <<'END'
import concurrent.futures, hashlib, sys, urllib.request
def ask(i):
    with urllib.request.urlopen(f"http://127.0.0.1:{sys.argv[1]}/{['small', 'large'][i % 2]}", timeout=20) as answer:
        return hashlib.sha256(answer.read()).hexdigest()
with concurrent.futures.ThreadPoolExecutor(8) as pool:
    answers = list(pool.map(ask, range(600)))
print(len(answers), sorted(set(answers)))
END
mkdir www; echo small >www/small; seq 200000 >www/large; chmod -R a+rX . ; chmod 777 .
"""

DNS = r"""
cat >ask.py <<'END'
import socket, struct, sys
def ask(name):
    question = struct.pack(">6H", 7, 0x0100, 1, 0, 0, 0) + b"".join(bytes([len(p)]) + p.encode() for p in name.split(".")) + b"\0\0\1\0\1"
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        s.settimeout(5); s.connect(("127.0.0.1", int(sys.argv[1]))); s.send(question)
        answer = s.recv(4096)
        return answer[3] & 15, answer[-4:].hex()
print([ask(f"h{i % 250}.example.test") for i in range(1, 2000)][::97])
END
chmod 777 .
"""

ROWS = [
    Row("memcached", "60 MiB of values through a socket", MEMCACHED % "", packages="memcached", limit_s=60, peers=True),
    Row("memcached-k", "the same with all memory locked (-k)", MEMCACHED.replace("unprivileged ", "") % "-u root -k", packages="memcached",
        limit_s=60, peers=True),
    Row("postgresql-backend", "what a backend keeps after three large queries, and 40 small ones", POSTGRES + r"""
mkfifo ask
$bin/psql -X -q -A -t postgres <ask >answers 2>&1 &
exec 3>ask
echo "select pg_backend_pid(); set work_mem = '256MB'; set jit = off; set max_parallel_workers_per_gather = 0;" >&3
for width in 10 40 90; do
  echo "select count(*), sum(length(w)) from (select w, count(*) from (select repeat(md5(i::text), 1 + i % $width) w
    from generate_series(1, 30000) i) t group by w order by w) u;" >&3
done
echo "select 'done';" >&3
await grep -q done answers
backend=$(head -1 answers)
active $backend
own() { awk '/^Private_Dirty|^Private_Clean/ {k += $2} END {printf "%.1f", k / 1024}' /proc/$backend/smaps_rollup; }
sleep 1.2
echo "FIGURE $(own) MiB of its own at once"
for i in $(seq 40); do echo "select count(*) from generate_series(1, $i);" >&3; sleep 0.05; done
echo "select 'quiet';" >&3
await grep -qx quiet answers
echo "FIGURE $(own) MiB after 40 small queries in 2 s"
tail -n +2 answers
exec 3>&-
""", packages="postgresql", limit_s=60, peers=True),
    Row("pgbench", "PostgreSQL, 4 connections, 2,000 transactions", POSTGRES + r"""
$bin/pgbench -q -i -s 2 postgres >/dev/null 2>&1
$bin/pgbench -c 4 -j 2 -t 500 postgres 2>&1 | grep -E 'processed|failed'
$bin/psql -X -A -t postgres -c "select count(*), sum(abalance) = (select sum(delta) from pgbench_history) from pgbench_accounts"
""", packages="postgresql", limit_s=90),
    Row("mariadb", "MariaDB: tables, joins, full text, temporary tables", r"""
chmod 777 .
unprivileged mariadb-install-db --no-defaults --auth-root-authentication-method=normal --datadir=$PWD/data --skip-test-db >log 2>&1 || { tail log; exit 1; }
unprivileged mariadbd --no-defaults --datadir=$PWD/data --socket=$PWD/socket --skip-networking --innodb-buffer-pool-size=32M \
  --pid-file=$PWD/pid >>log 2>&1 &
server=$!
trap 'kill $server; wait' EXIT
await mariadb-admin --no-defaults -S socket -u root ping
active $server
trap 'server_peak $server; mariadb-admin --no-defaults -S socket -u root shutdown; wait' EXIT
mariadb --no-defaults -S socket -u root -N -t <<'END'
create database d; use d;
create table t (id int primary key, a varchar(200), b text, key(a), fulltext(b)) engine=innodb;
insert into t select seq, concat('a', seq * 7919 % 10007), concat('word', seq % 97, ' other', seq % 13, ' ', repeat('x', seq % 500)) from seq_1_to_20000;
select count(*), sum(length(b)), min(a), max(a) from t;
select count(*) from t x join t y on x.a = y.a where x.id % 7 = 0;
select count(*) from t where match(b) against('word5');
create temporary table u as select a, group_concat(id order by id) g from t group by a;
select count(*), sum(length(g)), md5(group_concat(g order by a)) from u;
update t set b = concat(b, repeat('y', 300)) where id % 3 = 0; delete from t where id % 5 = 0;
select json_arrayagg(id) from t where id < 50; select count(*), sum(length(b)) from t;
END
""", packages="mariadb-server-core mariadb-server mariadb-client-core", limit_s=90),
    Row("nginx", "600 requests over 8 connections, gzip", ASK + r"""
port=$(free_port)
cat >nginx.conf <<END
worker_processes 2; daemon off; pid $PWD/pid; error_log stderr crit; events { worker_connections 200; }
http { access_log off; gzip on; client_body_temp_path $PWD; proxy_temp_path $PWD; fastcgi_temp_path $PWD; uwsgi_temp_path $PWD;
  scgi_temp_path $PWD; server { listen 127.0.0.1:$port; root $PWD/www; } }
END
unprivileged nginx -c $PWD/nginx.conf -e stderr &
ask_server $port curl -sf http://127.0.0.1:$port/small
""", packages="nginx-light curl", limit_s=60, peers=True),
    Row("haproxy", "in front of a file server, 600 requests", ASK + r"""
port=$(free_port) behind=$(free_port)
plain /usr/bin/python3 -m http.server --bind 127.0.0.1 -d www $behind >/dev/null 2>&1 &
cat >haproxy.cfg <<END
global
  nbthread 2
defaults
  mode http
  timeout connect 5s
  timeout client 20s
  timeout server 20s
frontend f
  bind 127.0.0.1:$port
  default_backend b
backend b
  server s 127.0.0.1:$behind
END
haproxy -f haproxy.cfg -db >/dev/null 2>&1 &
ask_server $port curl -sf http://127.0.0.1:$port/small
""", packages="haproxy curl", limit_s=60, peers=True),
    Row("apache", "event workers, 600 requests", ASK + r"""
port=$(free_port)
cat >apache.conf <<END
ServerRoot /etc/apache2
ServerName localhost
LoadModule mpm_event_module /usr/lib/apache2/modules/mod_mpm_event.so
LoadModule authz_core_module /usr/lib/apache2/modules/mod_authz_core.so
LoadModule deflate_module /usr/lib/apache2/modules/mod_deflate.so
LoadModule filter_module /usr/lib/apache2/modules/mod_filter.so
PidFile $PWD/pid
ErrorLog $PWD/error.log
Listen 127.0.0.1:$port
DefaultRuntimeDir $PWD
DocumentRoot $PWD/www
END
unprivileged apache2 -f $PWD/apache.conf -DFOREGROUND &
ask_server $port curl -sf http://127.0.0.1:$port/small
""", packages="apache2-bin curl", limit_s=60, peers=True),
    Row("named", "BIND, a zone of 250 names, 2,000 questions", DNS + r"""
port=$(free_port)
{ printf '$TTL 60\n@ IN SOA ns root 1 60 60 60 60\n@ IN NS ns\nns IN A 127.0.0.1\n'
  for i in $(seq 250); do echo "h$i IN A 10.0.0.$i"; done; } >zone
cat >named.conf <<END
options { directory "$PWD"; listen-on port $port { 127.0.0.1; }; listen-on-v6 { none; }; recursion no; pid-file "$PWD/pid"; session-keyfile "$PWD/key"; };
controls { };
zone "example.test" { type primary; file "$PWD/zone"; };
END
named -f -c $PWD/named.conf -n 2 >log 2>&1 &
ask_server $port /usr/bin/python3 ask.py $port
""", packages="bind9", limit_s=60, peers=True),
    Row("unbound", "a resolver with 250 local names, 2,000 questions", DNS + r"""
port=$(free_port)
{ echo "server:"
  for line in 'interface: 127.0.0.1' "port: $port" 'username: ""' 'chroot: ""' "directory: $PWD" "pidfile: $PWD/pid" 'do-daemonize: no' \
    'num-threads: 2' 'use-syslog: no' 'local-zone: "example.test." static'; do echo "  $line"; done
  for i in $(seq 250); do echo "  local-data: \"h$i.example.test. A 10.0.0.$i\""; done; } >unbound.conf
unbound -c $PWD/unbound.conf >log 2>&1 &
ask_server $port /usr/bin/python3 ask.py $port
""", packages="unbound", limit_s=60, peers=True),
    Row("chronyd", "a time server with lock_all answers a question", r"""
port=$(free_port)
cat >chrony.conf <<END
local stratum 8
port $port
cmdport 0
allow 127.0.0.1
pidfile $PWD/pid
lock_all
END
cat >ask.py <<'END'
import socket, sys
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.settimeout(2); s.connect(("127.0.0.1", int(sys.argv[1])))
s.send(b"\x23" + bytes(47)); print(len(s.recv(100)))
END
chronyd -x -d -U -u root -f $PWD/chrony.conf >log 2>&1 &
ask_server $port /usr/bin/python3 ask.py $port
""", packages="chrony", limit_s=60, peers=True),
]
