"""Tools"""
from row import Row


def tool(name, what, script, packages="", **more):
    return Row(name, what, "active self\n" + script, packages=packages, **{"limit_s": 60, **more})


# A picture and a sound for those that need one, made without the library.
PICTURE = r"""
plain /usr/bin/python3 -c 'import sys
w, h = 640, 480
sys.stdout.buffer.write(b"P6 %d %d 255\n" % (w, h) + bytes((x * y + c * 40 + x * x // (y + 1)) & 255 for y in range(h) for x in range(w) for c in range(3)))' >in.ppm
"""

ROWS = [
    tool("git", "150 commits, gc, clone, log, blame, fsck, rebase", r"""
export GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@b GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@b GIT_CONFIG_NOSYSTEM=1
export GIT_COMMITTER_DATE="1700000000 +0000" GIT_AUTHOR_DATE="1700000000 +0000"
git init -q -b main repo && cd repo
for i in $(seq 150); do mkdir -p d$((i % 7)); seq $i $((i * 40 + 400)) >d$((i % 7))/f$((i % 23)); echo "line $i" >>all; git add -A; git commit -q -m "commit $i"; done
git checkout -q -b side HEAD~5 && echo side >side && git add -A && git commit -q -m side && git rebase -q main
git gc -q --aggressive --prune=now && git clone -q --no-hardlinks . ../clone && cd ../clone
git log --stat --format='%H %s' | cksum; git log -p --all -- d3 | cksum; git blame all | cksum; git fsck --full 2>/dev/null; git rev-parse HEAD
git archive --format=tar HEAD | cksum; git grep -c 77 HEAD | cksum
""", "git", peers=True),
    tool("ffmpeg", "encode and decode video and sound with filters, 2 threads", r"""
ffmpeg -nostdin -loglevel error -f lavfi -i testsrc2=s=320x240:r=25:d=4 -f lavfi -i sine=440:d=4 -filter_complex "[0]scale=480:-2,hue=s=2[v]" -map "[v]" \
  -map 1 -c:v libx264 -threads 2 -preset veryfast -c:a aac -flags +bitexact -fflags +bitexact -y out.mp4
ffmpeg -nostdin -loglevel error -i out.mp4 -f framemd5 - | grep -v '^#' | cksum
ffprobe -loglevel error -show_entries stream=codec_name,width,nb_frames out.mp4
ffmpeg -nostdin -loglevel error -i out.mp4 -c:v libvpx-vp9 -deadline realtime -cpu-used 8 -threads 2 -t 1 -an -bitexact -y out.webm && cksum <out.webm
""", "ffmpeg", limit_s=90),
    tool("imagemagick", "resize, blur, distort, quantise", PICTURE + r"""
convert in.ppm -resize 150% -blur 0x2 -rotate 13 -colors 64 -depth 8 out.png && convert out.png -depth 8 rgb:- | cksum
convert in.ppm -distort Perspective '0,0 20,30 639,0 600,10 639,479 600,470 0,479 5,450' -quality 80 out.jpg && identify -format '%w %h %m\n' out.jpg
""", "imagemagick"),
    tool("povray", "a scene with spheres and mirrors", r"""
cat >scene.pov <<'END'
camera { location <0, 3, -9> look_at 0 } light_source { <9, 9, -9> rgb 1 } plane { y, -1 pigment { checker rgb 0.2 rgb 0.9 } finish { reflection 0.3 } }
#declare i = 0; #while (i < 120) sphere { <sin(i) * 4, mod(i, 7) * 0.4, cos(i * 1.7) * 4>, 0.4 pigment { rgb <mod(i, 3) / 3, mod(i, 5) / 5, 0.5> } finish { phong 0.8 reflection 0.2 } } #declare i = i + 1; #end
END
povray -D +Iscene.pov +Oout.ppm +FP +W320 +H240 +WT1 -GA >/dev/null 2>&1 && tail -c 230400 out.ppm | cksum
""", "povray"),
    tool("tshark", "a capture of 3,000 packets in full", r"""
plain /usr/bin/python3 -c 'import struct, sys
o = sys.stdout.buffer; o.write(struct.pack("<IHHiIII", 0xa1b2c3d4, 2, 4, 0, 0, 65535, 1))
for i in range(3000):
    dns = struct.pack(">6H", i, 256, 1, 0, 0, 0) + b"\x04host\x07example\x00\x00\x01\x00\x01"
    udp = struct.pack(">4H", 1024 + i, 53, 8 + len(dns), 0) + dns
    ip = struct.pack(">BBHHHBBH4s4s", 69, 0, 20 + len(udp), i, 0, 64, 17, 0, bytes([10, 0, i >> 8, i & 255]), bytes([10, 1, 1, 1]))
    p = bytes(12) + b"\x08\x00" + ip + udp; o.write(struct.pack("<IIII", 1700000000 + i, 0, len(p), len(p)) + p)' >in.pcap
tshark -r in.pcap -n 2>/dev/null | cksum
tshark -r in.pcap -n -V -c 300 2>/dev/null | cksum
tshark -r in.pcap -n -q -z conv,ip 2>/dev/null | tail -n +6 | sort | cksum
""", "tshark"),
    tool("tesseract", "reads the text of a picture", r"""
cat >text.ps <<'END'
%!PS
/Helvetica findfont 24 scalefont setfont 72 700 moveto (The quick brown fox jumps over) show 72 660 moveto (the lazy dog 1234567890) show showpage
END
plain gs -q -dBATCH -dNOPAUSE -sDEVICE=pgmraw -r150 -sOutputFile=text.pgm text.ps
OMP_THREAD_LIMIT=2 tesseract text.pgm - 2>/dev/null
""", "tesseract-ocr tesseract-ocr-eng ghostscript"),
    tool("graphviz", "a graph of 300 nodes as SVG, with dot and neato", r"""
{ echo 'digraph g {'; for i in $(seq 300); do echo "n$i -> n$((i * 7 % 101)); n$i [label=\"node $i\"];"; done; echo '}'; } >g.dot
dot -Tsvg g.dot | cksum; neato -Tsvg g.dot | cksum
""", "graphviz"),
    tool("gnuplot", "curves and a surface as SVG", r"""
printf 'set term svg; set output "a.svg"; set samples 2000; plot sin(x)*x, cos(3*x); set output "b.svg"; set isosamples 60; splot x*x-y*y with pm3d\n' | gnuplot
cat a.svg b.svg | cksum
""", "gnuplot-nox"),
    tool("latex", "an article of 30 pages with formulas", r"""
{ echo '\documentclass{article}\begin{document}\tableofcontents'; for i in $(seq 60); do echo "\\section{Part $i}"; echo '\[ \sum_{n=1}^{\infty} \frac{1}{n^2} = \frac{\pi^2}{6} \]'
  for j in $(seq 30); do echo "Words of sentence $j in part $i, which is long enough to be broken into lines."; done; done; echo '\end{document}'; } >a.tex
export SOURCE_DATE_EPOCH=1700000000 FORCE_SOURCE_DATE=1
pdflatex -interaction=batchmode a.tex >/dev/null && pdflatex -interaction=batchmode a.tex >/dev/null
grep 'Output written' a.log; pdftotext a.pdf - | cksum
""", "texlive-latex-base poppler-utils"),
    tool("qemu-img", "disk images created, converted, compared, snapshots", r"""
seq 400000 >raw; truncate -s 8M raw
qemu-img convert -f raw -O qcow2 -c raw a.qcow2 && qemu-img convert -O vmdk a.qcow2 b.vmdk && qemu-img compare a.qcow2 b.vmdk
qemu-img snapshot -c one a.qcow2 && qemu-img resize -q a.qcow2 16M && qemu-img check a.qcow2 | grep errors
qemu-io -c 'write -P 7 1M 3M' -c 'read -P 7 2M 1M' a.qcow2 | grep -c 'bytes at'
""", "qemu-utils"),
    tool("tmux", "a server with 20 windows", r"""
export TERM=screen
tmux -S socket -f /dev/null new-session -d -n w0 -x 80 -y 24 'exec cat'
active "$(tmux -S socket display -p '#{pid}')"
for i in $(seq 20); do tmux -S socket new-window -n "w$i" 'exec cat'; tmux -S socket send-keys "hello $i" Enter; done
sleep 0.5
for i in $(seq 20); do tmux -S socket capture-pane -p -t ":w$i" | head -2; done | cksum
tmux -S socket list-windows -F '#{window_index} #{window_name}' | cksum
tmux -S socket kill-server
""", "tmux"),
    tool("neovim", "edits, Lua, regular expressions", r"""
seq 40000 >text
nvim --headless -u NONE -n text -c '%s/\v(\d)(\d)$/\2-\1/' -c 'g/5/t$' -c '%sort n' -c 'lua local t = {} for i = 1, 100000 do t[i % 97] = ("x"):rep(i % 90) end vim.api.nvim_buf_set_lines(0, 0, 0, false, t)' \
  -c 'w! out' -c 'qa!' >log 2>&1
cksum <out
""", "neovim", peers=True),
    tool("vim", "edits, undo, its own script", r"""
seq 30000 >text
vim -N -u NONE -i NONE -n -es text -c '%s/\v(\d)(\d)$/\2-\1/' -c 'g/5/t$' -c 'undo' -c 'let d = {} | for i in range(20000) | let d[i % 301] = repeat("x", i % 90) | endfor' \
  -c 'call append(0, values(d))' -c '%sort' -c 'w! out' -c 'qa!' >log 2>&1
cksum <out
""", "vim-nox", peers=True),
    tool("emacs", "Lisp, buffers, regular expressions, byte compiler", r"""
cat >work.el <<'END'
(defun fib (n) (if (< n 2) n (+ (fib (- n 1)) (fib (- n 2)))))
(let ((h (make-hash-table :test 'equal)))
  (dotimes (i 100000) (puthash (format "k%d" (% i 5003)) (make-string (% i 90) ?x) h)) (princ (hash-table-count h)))
(with-temp-buffer (dotimes (i 20000) (insert (format "line %d\n" i))) (goto-char (point-min))
  (while (re-search-forward "\\([0-9]\\)\\([0-9]\\)$" nil t) (replace-match "\\2-\\1")) (sort-lines nil (point-min) (point-max)) (princ (md5 (buffer-string))))
(garbage-collect) (byte-compile 'fib) (princ (fib 22))
END
emacs -Q --batch -l work.el
""", "emacs-nox"),
    tool("cmake", "configures, generates and builds a small project", r"""
mkdir p && cd p && printf 'cmake_minimum_required(VERSION 3.10)\nproject(p C)\nforeach(i RANGE 200)\nlist(APPEND l ${i})\nendforeach()\nlist(LENGTH l n)\nmessage(STATUS ${n})\nadd_executable(a a.c)\n' >CMakeLists.txt
echo 'int puts(const char*); int main(void) { return puts("built") < 0; }' >a.c
cmake -S . -B b >log && grep -- '-- 201' log && cmake --build b >>log && ./b/a
""", "cmake"),
    tool("gcc", "g++ with templates: the same object file", r"""
cat >a.cpp <<'END'
#include <functional>
#include <map>
#include <regex>
#include <string>
#include <tuple>
#include <vector>
template <int N> struct Tag { std::map<std::string, std::vector<Tag<N - 1>>> m; };
template <> struct Tag<0> { int v; };
template <std::size_t... I> auto make(std::index_sequence<I...>) { return std::make_tuple(std::vector<std::string>(I % 5, "x")...); }
int main() { Tag<9> t; t.m["a"]; std::regex r("(a+)(b+)"); return static_cast<int>(std::tuple_size<decltype(make(std::make_index_sequence<60>{}))>::value) - 60; }
END
g++ -std=c++17 -O1 -c a.cpp -o a.o && cksum <a.o
""", "g++"),
    tool("gdb", "a breakpoint, a backtrace, its Python", r"""
printf '#include <stdlib.h>\nstruct s { int a; char b[40]; struct s* next; } * list;\nint f(int n) { struct s* p = calloc(1, sizeof *p); p->a = n; p->next = list; list = p; return n ? f(n - 1) + 1 : 0; }\nint main(void) { return f(30) - 30; }\n' >a.c
plain gcc -g -O0 a.c -o a
gdb -q -nx -batch -iex 'set debuginfod enabled off' -ex 'set startup-with-shell off' -ex 'break f if n == 5' -ex run -ex 'print *list' -ex bt -ex 'python print(sum(len(f.name) for f in iter(lambda l=[gdb.newest_frame()]: l.__setitem__(0, l[0].older()) or l[0], None)))' -ex kill ./a 2>&1 |
  grep -E '^(\$|#)' | sed -E 's/0x[0-9a-f]+/ADDRESS/g' | cksum
""", "gdb"),
    tool("sqlite", "60,000 rows, joins, JSON, full text, vacuum", r"""
sqlite3 db <<'END'
create table t(id integer primary key, name text, body blob); create virtual table f using fts5(x);
with recursive c(i) as (select 1 union all select i + 1 from c where i < 60000) insert into t select i, 'name' || (i * 7919 % 60013), zeroblob(i % 300) from c;
insert into f select name || ' word' || (id % 97) from t; create index n on t(name);
select count(*), sum(length(body)), min(name) from t; select count(*) from f where f match 'word5'; delete from t where id % 5 = 0; vacuum;
select count(*) from t a join t b on a.name = b.name; select length(json_group_array(name)) from t; pragma integrity_check;
END
""", "sqlite3", quick=True, peers=True),
    tool("sort", "400,000 lines, threads, little memory", r"""
seq 400000 | awk '{ print $1 * 7919 % 600011, "line", $1 }' >in
sort --parallel=4 -S 24M -n in | cksum; sort -u -k1,1n in | wc -l
""", peers=True),
    tool("compressors", "zstd with threads, xz, 7z, bzip2, gzip", r"""
seq 400000 >in
zstd -q -T2 -12 in -o a.zst && zstd -q -dc a.zst | cksum; xz -T2 --block-size=1MiB -c in | xz -dc | cksum; bzip2 -c in | bzip2 -dc | cksum; gzip -9 -c in | gzip -dc | cksum
7z a -bd -mmt2 a.7z in >/dev/null && 7z x -bd -so a.7z | cksum
""", "zstd xz-utils bzip2 p7zip-full"),
    tool("ghostscript", "pages as pictures and as PDF", r"""
cat >in.ps <<'END'
%!PS
/Helvetica findfont 11 scalefont setfont
1 1 12 { /page exch def 0 1 60 { /i exch def gsave 300 400 translate i 6 mul rotate i 61 div 0.3 page 12 div setrgbcolor
newpath 0 0 moveto 200 i 2 mul lineto 50 i 3 mul 120 0 360 arc closepath fill grestore 60 700 i 10 mul sub moveto (line ) show i 8 string cvs show } for showpage } for
END
gs -q -dBATCH -dNOPAUSE -sDEVICE=ppmraw -r60 -sOutputFile=out%d.ppm in.ps && cat out*.ppm | cksum
gs -q -dBATCH -dNOPAUSE -sDEVICE=pdfwrite -sOutputFile=out.pdf in.ps && gs -q -dBATCH -dNOPAUSE -sDEVICE=txtwrite -sOutputFile=- out.pdf | cksum
""", "ghostscript"),
    tool("poppler-rsvg", "SVG to PDF, PDF to text and pictures", r"""
{ echo '<svg xmlns="http://www.w3.org/2000/svg" width="500" height="500">'; for i in $(seq 400); do echo "<circle cx='$((i * 37 % 500))' cy='$((i * 91 % 500))' r='$((i % 23))' fill='#$((100 + i))' opacity='0.5'/>"; done
  echo '<text x="20" y="40">Some words</text></svg>'; } >a.svg
rsvg-convert a.svg -o a.png && rsvg-convert -f pdf a.svg -o a.pdf && pdftotext a.pdf - && pdftoppm -r 60 a.pdf | cksum
/usr/bin/python3 -c 'import matplotlib.image as i; import hashlib; print(hashlib.sha256(i.imread("a.png").tobytes()).hexdigest())'
""", "poppler-utils librsvg2-bin python3-matplotlib"),
    tool("samtools", "a genome of 5,000 reads: sorted, indexed, counted, with threads", r"""
plain /usr/bin/python3 -c '
print("@HD\tVN:1.6\n@SQ\tSN:c\tLN:1000000")
for i in range(5000):
    print(f"r{i}", 0, "c", i * 7919 % 999000 + 1, 60, "100M", "*", 0, 0, "ACGT"[i % 4] * 100, "I" * 100, sep="\t")' >a.sam
samtools sort -@ 2 -O bam a.sam -o a.bam 2>/dev/null && samtools index a.bam && samtools view a.bam | cksum; samtools depth a.bam | cksum; samtools view -c a.bam c:1000-90000
""", "samtools"),
    tool("subversion", "repository, commits, branches, log", r"""
svnadmin create r && svn co -q file://$PWD/r w && cd w && mkdir trunk && svn add -q trunk
for i in $(seq 25); do seq $((i * 400)) >trunk/f$((i % 7)); svn add -q --force trunk; svn ci -q -m "c$i"; done
svn cp -q trunk branch && svn ci -q -m branch && svn up -q && svn log -q | grep -c '^r'; svn cat trunk/f3 | cksum; svnadmin verify -q ../r; svn diff -r 1:HEAD | grep -c '^[+]'
""", "subversion", limit_s=90),
    tool("mercurial", "commits, clone, verify", r"""
export HGRCPATH= HGUSER=a
hg init r && cd r
for i in $(seq 8); do seq $((i * 400)) >f$((i % 7)); hg -q addremove; hg -q ci -d "$i 0" -m "c$i"; done
hg clone -q . ../s && cd ../s && hg log --template '{node}\n' | cksum; hg verify -q && hg annotate f3 | cksum
""", "mercurial", limit_s=90),
    tool("z3", "arithmetic and arrays", r"""
cat >a.smt2 <<'END'
(declare-fun a (Int) Int) (declare-const x Int) (declare-const y Int) (declare-const b (_ BitVec 8)) (declare-const c (_ BitVec 8))
(assert (> (a 5) (a 4))) (assert (> (a 6) (a 5))) (assert (= (a 5) x)) (assert (< x y)) (assert (= (bvmul b c) #x39)) (assert (bvugt b #x02)) (assert (bvugt c #x02))
(check-sat) (push) (assert (< (a 6) x)) (check-sat) (pop) (check-sat)
END
z3 -T:50 a.smt2
""", "z3", peers=True),
    tool("openssl", "keys, certificates, signatures, ciphers", r"""
openssl genrsa -out key 2048 2>/dev/null && openssl req -new -x509 -key key -subj /CN=x -days 9 -out cert && openssl verify -CAfile cert cert
seq 300000 >in && openssl dgst -sha256 -sign key -out sig in && openssl dgst -sha256 -verify <(openssl pkey -in key -pubout) -signature sig in
for c in aes-256-cbc chacha20 camellia-128-cbc; do openssl enc -$c -pass pass:x -pbkdf2 -in in | openssl enc -d -$c -pass pass:x -pbkdf2 | cksum; done
openssl s_server -accept 0 -cert cert -key key -www -naccept 1 2>/dev/null >port & server=$!
await grep -q ACCEPT port; active $server
plain curl -sk "https://127.0.0.1:$(sed -n 's/ACCEPT.*:\([0-9]*\)$/\1/p' port)/" | grep -c BODY; wait
""", "openssl curl"),
    tool("ripgrep", "a tree with threads", r"""
mkdir t; for i in $(seq 200); do seq $i $((i * 50)) >t/f$i; done
rg -j 4 -c '7[0-9]*3$' t | sort | cksum; rg -j 4 --sort path -U '99\n100' t | wc -l
""", "ripgrep", peers=True),
    tool("jq-xmllint", "JSON grouped, XML parsed and validated", r"""
plain /usr/bin/python3 -c '
import json; print(json.dumps([{"id": i, "tags": [f"a{i % 13}", f"b{i % 7}"], "v": i / 2} for i in range(15000)]))' >in.json
jq -c 'group_by(.tags[0]) | map({k: .[0].tags[0], n: length, s: (map(.v) | add), t: [.[].tags[1]] | unique})' in.json
{ echo '<r>'; for i in $(seq 15000); do echo "<i id='i$i'><n>n$((i % 97))</n></i>"; done; echo '</r>'; } >in.xml
xmllint --format in.xml | cksum; xmllint --xpath "count(//i[n='n5'])" in.xml; xmllint --noout --stream in.xml
""", "jq libxml2-utils", peers=True),
    tool("exiv2", "metadata written and read", PICTURE + r"""
plain gs -q -dBATCH -dNOPAUSE -sDEVICE=jpeg -g300x200 -sOutputFile=a.jpg -c '0 1 200 { dup 200 div setgray 0 exch moveto 300 0 rlineto stroke } for showpage'
for i in $(seq 30); do exiv2 -M"set Exif.Photo.UserComment text $i" -M"set Xmp.dc.subject word$i" -M"add Iptc.Application2.Keywords k$i" a.jpg; done
exiv2 -pa a.jpg | cksum; exiv2 -px a.jpg | tail -2
""", "exiv2 ghostscript"),
    tool("bc", "a thousand digits of pi", "echo 'scale=1000; 4*a(1)' | bc -l | cksum\n", "bc", quick=True, peers=True),
    tool("fortran", "allocatable arrays, OpenMP", r"""
cat >a.f90 <<'END'
program a
  real(8), allocatable :: x(:), y(:, :)
  integer :: i, k
  real(8) :: s
  s = 0
  !$omp parallel do private(x, y) reduction(+:s)
  do i = 1, 2000
    allocate(x(i), y(10, i)); x = i; y = 1; s = s + sum(x) + sum(y); deallocate(x, y)
  end do
  print '(f20.1)', s
end program
END
gfortran -O1 -fopenmp a.f90 -o a && OMP_NUM_THREADS=4 ./a
""", "gfortran", peers=True),
]
