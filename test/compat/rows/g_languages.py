"""Languages and their run-times"""
from row import Row


def simple(name, what, script, packages="", **more):
    return Row(name, what, "active self\n" + script, packages=packages, **{"limit_s": 60, **more})


ROWS = [
    simple("node", "strings, buffers, zlib, worker threads", r"""
cat >work.js <<'END'
const zlib = require('zlib'), crypto = require('crypto'), { Worker, isMainThread, parentPort } = require('worker_threads');
if (isMainThread) {
  const m = new Map(); for (let i = 0; i < 200000; i++) m.set('k' + i % 30011, Buffer.alloc(i % 300, i & 255));
  const h = crypto.createHash('sha256'); for (const [k, v] of [...m].sort()) h.update(k).update(v);
  console.log(h.digest('hex'), zlib.brotliCompressSync(Buffer.from('abc'.repeat(30000))).length);
  let left = 4; for (let i = 0; i < 4; i++) new Worker(__filename).on('message', x => { if (--left === 0) console.log(x); });
} else { const a = []; for (let i = 0; i < 5000; i++) a.push(Buffer.alloc(i)); parentPort.postMessage(a.length); }
END
node work.js
""", peers=True),
    simple("java", "maps, streams, threads, zip, direct buffers", r"""
cat >Work.java <<'END'
import java.nio.*; import java.util.*; import java.util.stream.*; import java.util.zip.*;
public class Work { public static void main(String[] a) throws Exception {
  var m = new HashMap<String, String>(); for (int i = 0; i < 300000; i++) m.merge("k" + i % 5003, "v" + i, (x, y) -> (x + y).substring(0, Math.min(60, x.length())));
  System.out.println(new TreeMap<>(m).hashCode());
  System.out.println(IntStream.range(0, 2000000).parallel().mapToLong(i -> i * 7919L % 101).sum());
  long sum = 0; for (int i = 0; i < 2000; i++) { var b = ByteBuffer.allocateDirect(1 + i * 50); b.put(0, (byte) i); sum += b.get(0) + b.capacity(); }
  var d = new Deflater(); d.setInput("abc".repeat(100000).getBytes()); d.finish(); byte[] out = new byte[10000]; System.out.println(sum + " " + d.deflate(out));
  var threads = new ArrayList<Thread>(); for (int t = 0; t < 50; t++) { var x = new Thread(() -> { var l = new ArrayList<byte[]>(); for (int i = 0; i < 1000; i++) l.add(new byte[i]); }); x.start(); threads.add(x); }
  for (var t : threads) t.join(); System.out.println("threads done");
} }
END
java -Xmx256m Work.java
""", "openjdk-17-jdk-headless"),
    simple("ruby", "hashes, strings, threads, JSON, zlib", r"""
cat >work.rb <<'END'
require 'json'; require 'zlib'; require 'digest'; require 'set'
h = Hash.new(""); 200000.times { |i| h[i % 5003] += (97 + i % 26).chr }
puts Digest::SHA256.hexdigest(h.sort.to_json)
puts (1..8).map { |k| Thread.new { (1..20000).map { |i| "x" * (i % 90) }.to_set.size } }.map(&:value).inspect
puts Zlib.inflate(Zlib.deflate("hello" * 100000)).size; puts ("ab " * 50000).gsub(/b/) { |m| m * 3 }.size
GC.start; puts ObjectSpace.count_objects[:TOTAL] > 0
END
ruby work.rb
""", "ruby", peers=True),
    simple("perl", "hashes, regular expressions, threads", r"""
cat >work.pl <<'END'
use threads; my %h; $h{$_ % 5003} .= chr(97 + $_ % 26) for 1 .. 200000;
print join(",", map { "$_=" . length $h{$_} } (sort { $a <=> $b } keys %h)[0 .. 20]), "\n";
my $s = "abc" x 100000; $s =~ s/b/BBBB/g; print length $s, "\n";
print join(" ", map { $_->join } map { threads->create(sub { my %x = map { $_ => "v$_" } 1 .. 5000; scalar keys %x }) } 1 .. 4), "\n";
END
perl work.pl
""", "perl", quick=True, peers=True),
    simple("lua", "tables, strings, coroutines", r"""
cat >work.lua <<'END'
local t, n = {}, 0
for i = 1, 200000 do t[i % 7001] = string.rep(string.char(97 + i % 26), i % 200) end
for k = 0, 7000 do n = n + #t[k] * k end print(n)
local co = {} for i = 1, 5000 do co[i] = coroutine.wrap(function(x) while true do x = coroutine.yield(x + i) end end) end
local sum = 0 for r = 1, 5 do for i = 1, 5000 do sum = sum + co[i](r) end end print(sum)
END
lua5.4 work.lua
""", "lua5.4", quick=True, peers=True),
    simple("luajit", "the same, compiled", "cat >work.lua <<'END'\nlocal t = {} for i = 1, 3e6 do t[i % 5003] = tostring(i) .. string.rep('x', i % 50) end\n"
           "local n = 0 for k, v in pairs(t) do n = n + #v end print(n)\nEND\nluajit work.lua\n", "luajit", peers=True),
    simple("tcl", "lists, dictionaries, regular expressions", r"""
cat >work.tcl <<'END'
for {set i 0} {$i < 200000} {incr i} { dict append d [expr {$i % 3001}] [string repeat x [expr {$i % 7}]] }
set n 0; dict for {k v} $d { incr n [string length $v] }; puts $n
set l {}; for {set i 0} {$i < 100000} {incr i} { lappend l [expr {$i * 7919 % 100003}] }; puts [lrange [lsort -integer $l] 500 510]
puts [regsub -all {b+} [string repeat abbc 20000] Z s][string length $s]
END
tclsh work.tcl
""", "tcl", peers=True),
    simple("gawk", "associative arrays, sorting", r"""
seq 300000 | gawk '{ a[$1 % 5003] = a[$1 % 5003] $1 } END { n = asort(a); for (i = 1; i <= n; i += 500) print length(a[i]), substr(a[i], 1, 30) }'
""", "gawk", quick=True, peers=True),
    simple("guile", "lists, big numbers, strings", r"""
cat >work.scm <<'END'
(use-modules (srfi srfi-1))
(define (fact n) (if (= n 0) 1 (* n (fact (- n 1)))))
(display (string-length (number->string (fact 2000)))) (newline)
(define h (make-hash-table)) (do ((i 0 (+ i 1))) ((= i 200000)) (hash-set! h (modulo i 5003) (make-string (modulo i 90) #\x)))
(display (hash-fold (lambda (k v n) (+ n (string-length v))) 0 h)) (newline)
(display (length (delete-duplicates (map (lambda (i) (modulo (* i 7919) 1009)) (iota 20000))))) (newline)
END
guile --no-auto-compile work.scm
""", "guile-3.0", peers=True),
    simple("sbcl", "Steel Bank Common Lisp: compile, hash tables, collection", r"""
cat >work.lisp <<'END'
(defun fib (n) (if (< n 2) n (+ (fib (- n 1)) (fib (- n 2))))) (print (fib 27))
(let ((h (make-hash-table :test 'equal))) (dotimes (i 200000) (setf (gethash (format nil "k~d" (mod i 3001)) h) (make-string (mod i 50))))
  (print (hash-table-count h))) (print (integer-length (expt 3 20000))) (gc :full t) (print :done)
END
sbcl --noinform --non-interactive --load work.lisp
""", "sbcl"),
    simple("ocaml", "maps, strings, Buffer", r"""
cat >work.ml <<'END'
module M = Map.Make(String)
let m = ref M.empty;; for i = 1 to 100000 do m := M.add (string_of_int (i * 7919 mod 30011)) (String.make (i mod 90) 'x') !m done;;
print_int (M.fold (fun _ v n -> n + String.length v) !m 0);; let b = Buffer.create 1;; for i = 1 to 200000 do Buffer.add_string b (string_of_int i) done;;
print_newline ();; print_string (Digest.to_hex (Digest.string (Buffer.contents b)));;
END
ocaml work.ml
""", "ocaml-nox"),
    simple("ghc", "Haskell: compile and run", r"""
cat >Main.hs <<'END'
import qualified Data.Map.Strict as M
import Data.List (foldl')
main :: IO ()
main = do
  let m = foldl' (\a i -> M.insertWith (++) (i * 7919 `mod` 1009) (take 3 (show i)) a) M.empty [1 .. 50000 :: Int]
  print (M.foldl' (\n s -> n + length s) 0 m)
  print (length (show (product [1 .. 3000 :: Integer])))
END
ghc -O1 Main.hs -o program >/dev/null
./program
""", "ghc", limit_s=120),
    simple("erlang", "processes, ets, binaries", r"""
cat >work.erl <<'END'
-module(work). -export([main/1]).
main(_) ->
  T = ets:new(t, [public]), S = self(),
  [spawn(fun() -> [ets:insert(T, {{K, I}, binary:copy(<<"x">>, I rem 300)}) || I <- lists:seq(1, 500)], S ! done end) || K <- lists:seq(1, 60)],
  [receive done -> ok end || _ <- lists:seq(1, 60)],
  io:format("~p ~p~n", [ets:info(T, size), lists:sum([byte_size(B) || {_, B} <- ets:tab2list(T)])]),
  io:format("~p~n", [length(integer_to_list(lists:foldl(fun(A, B) -> A * B end, 1, lists:seq(1, 2000))))]).
END
erlc work.erl && erl -noshell -eval 'work:main([]), halt().'
""", "erlang-base"),
    simple("elixir", "streams, maps, tasks", r"""
cat >work.exs <<'END'
IO.puts(1..100_000 |> Stream.map(&(&1 * 7919)) |> Enum.group_by(&rem(&1, 101)) |> Enum.map(fn {_, l} -> length(l) end) |> Enum.sum())
IO.inspect(1..8 |> Enum.map(fn k -> Task.async(fn -> Enum.reduce(1..20_000, 0, fn i, n -> n + byte_size(String.duplicate("x", rem(i * k, 50))) end) end) end) |> Enum.map(&Task.await/1))
END
elixir work.exs
""", "elixir"),
    simple("swi-prolog", "assertions, findall, atoms", r"""
cat >work.pl <<'END'
:- dynamic f/2.
main :- forall(between(1, 60000, I), (K is I * 7919 mod 10007, assertz(f(K, I)))), aggregate_all(count, f(_, _), N), print(N), nl,
  findall(A, (between(1, 20000, I), atom_number(A, I)), L), length(L, M), print(M), nl, retractall(f(_, _)),
  numlist(1, 2000, P), foldl([X, Y, Z]>>(Z is X * Y), P, 1, F), F2 is F mod 1000000007, print(F2), nl.
END
swipl -q -g main -t halt work.pl
""", "swi-prolog-nox", peers=True),
    simple("mono", "C# compiled and run", r"""
cat >work.cs <<'END'
using System; using System.Collections.Generic; using System.Linq; using System.Threading;
class Work { static void Main() {
  var d = new Dictionary<string, string>(); for (int i = 0; i < 200000; i++) d["k" + i % 5003] = new string('x', i % 90);
  Console.WriteLine(d.OrderBy(p => p.Key, StringComparer.Ordinal).Sum(p => p.Key.Length * p.Value.Length));
  var t = Enumerable.Range(0, 8).Select(k => new Thread(() => { var l = new List<byte[]>(); for (int i = 0; i < 3000; i++) l.Add(new byte[i]); })).ToList();
  t.ForEach(x => x.Start()); t.ForEach(x => x.Join()); Console.WriteLine("done");
} }
END
mcs work.cs && mono work.exe
""", "mono-mcs mono-runtime libmono-system-core4.0-cil"),
    simple("r", "matrices, sorting, regression", r"""
cat >work.R <<'END'
set.seed(7); m <- matrix(rnorm(250000), 500); s <- crossprod(m); cat(sprintf("%.6f", sum(diag(s))), "\n")
d <- data.frame(a = sample(1000, 50000, TRUE), b = rnorm(50000)); print(dim(aggregate(b ~ a, d, mean)))
cat(nchar(paste(sort(sprintf("%05d", sample(50000))), collapse = "")), "\n"); print(signif(coef(lm(b ~ a, d)), 4))
l <- list(); for (i in 1:20000) l[[i]] <- rep(i, i %% 50); cat(sum(lengths(l)), "\n"); invisible(gc())
END
Rscript --vanilla work.R
""", "r-base-core"),
    simple("octave", "matrices, cells, strings", r"""
cat >work.m <<'END'
a = reshape(mod((1:160000) * 7919, 1009), 400, 400); printf("%d %.4f\n", sum(sum(a * a')), norm(a));
c = {}; for i = 1:5000 c{i} = repmat("x", 1, mod(i, 90)); end; printf("%d\n", sum(cellfun(@numel, c)));
s = sort(mod((1:100000) * 7919, 100003)); printf("%d ", s(1:1000:10000)); printf("%d\n", numel(strsplit(repmat("a,b,", 1, 5000), ",")));
END
octave-cli --no-gui --norc work.m
""", "octave"),
    simple("maxima", "integrals, factors, big numbers", r"""
maxima --very-quiet --batch-string 'integrate(x^3*sin(x)^2, x); factor(x^24-1); string(bfloat(%pi)); length(listofvars(expand((a+b+c+d)^12))); determinant(genmatrix(lambda([i,j], i^2+j*i mod 7+1), 6, 6));' 2>&1 | tail -n 20
""", "maxima"),
    simple("gap", "groups", r"""
echo 'Print(Size(SymmetricGroup(12)), "\n"); Print(Length(ConjugacyClasses(SymmetricGroup(9))), "\n"); Print(NrSmallGroups(1), "\n"); QUIT;' | gap -q -b -A 2>&1 || true
""", "gap-core"),
    simple("pari", "numbers and polynomials", r"""
echo 'print(factorint(2^101-1)); print(#Str(5000!)); print(polisirreducible(x^7+x+1)); print(bnfinit(x^3-x-7).no); print(primepi(10^6))' | gp -q -f
""", "pari-gp", peers=True),
    simple("go", "compiled and run, with cgo", r"""
cat >work.go <<'END'
package main
// #include <stdlib.h>
// #include <string.h>
import "C"
import ("fmt"; "sort"; "sync"; "unsafe")
func main() {
  m := map[string]int{}; for i := 0; i < 200000; i++ { m[fmt.Sprint(i*7919%10007)] += i }
  k := []string{}; for s := range m { k = append(k, s) }; sort.Strings(k); fmt.Println(len(k), k[500], m[k[500]])
  var w sync.WaitGroup; for t := 0; t < 50; t++ { w.Add(1); go func() { defer w.Done()
    for i := 0; i < 2000; i++ { s := C.CString("hello from go"); if C.strlen(s) != 13 { panic("strlen") }; C.free(unsafe.Pointer(s)) } }() }
  w.Wait(); fmt.Println("done")
}
END
export GOCACHE=$COMMON/cache GO111MODULE=off GOFLAGS=-p=2
go build -o program work.go
active self
./program
""", "golang-go", limit_s=180, setup="export GOCACHE=$PWD/cache GO111MODULE=off\nprintf 'package main\\nimport \"C\"\\nimport (\"fmt\"; \"sort\"; \"sync\")\\nvar _ = sort.Strings\\nvar _ sync.Mutex\\nfunc main() { fmt.Println(1) }\\n' >a.go\ngo build a.go"),
]
