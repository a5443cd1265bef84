"""Browsers and an office"""
from row import Row

# A picture of the page must be the same to the pixel.
PAGE = r"""
cat >page.html <<'END'
<!doctype html><meta charset=utf-8><style>body{font:16px sans-serif;margin:10px;background:linear-gradient(#fff,#cde)}
td{border:1px solid #888;padding:2px}div{display:grid;grid-template-columns:repeat(20,1fr)}</style>
<h1>Blocks of all sizes</h1><table id=t></table><canvas id=c width=300 height=120></canvas><div id=d></div>
<svg width=300 height=60><path d="M0 50C80 0 160 60 290 10" stroke=teal stroke-width=6 fill=none /></svg><p id=p></p>
<script>
let rows = ''; for (let i = 0; i < 12; i++) { rows += '<tr>'; for (let j = 0; j < 12; j++) rows += `<td>${i * j}</td>`; }
t.innerHTML = rows; const g = c.getContext('2d');
for (let i = 0; i < 300; i++) { g.fillStyle = `hsl(${i},80%,50%)`; g.fillRect(i, 60 - 50 * Math.sin(i / 20), 3, 60); }
for (let i = 0; i < 2000; i++) { const e = document.createElement('b'); e.textContent = i % 7; d.append(e); if (i > 100) d.firstChild.remove(); }
const m = new Map(); let s = 0; for (let i = 0; i < 300000; i++) m.set('k' + i % 5003, 'x'.repeat(i % 90));
for (const [k, v] of m) s += k.length * v.length; p.textContent = 'sum ' + s;
</script>
END
"""

CHROMIUM = PAGE + r"""
chromium --headless --no-sandbox --disable-gpu --disable-dev-shm-usage --hide-scrollbars --no-first-run --disable-background-networking \
  --user-data-dir=$PWD/profile --window-size=900,1000 --virtual-time-budget=5000 --screenshot=$PWD/page.png file://$PWD/page.html >log 2>&1 ||
  { tail -5 log; exit 1; }
[ -s page.png ] || { tail -5 log; exit 1; }
/usr/bin/python3 -c 'import matplotlib.image as i; import hashlib; p = i.imread("page.png"); print(p.shape, hashlib.sha256(p.tobytes()).hexdigest())'
chromium --headless --no-sandbox --disable-gpu --disable-dev-shm-usage --user-data-dir=$PWD/profile --virtual-time-budget=5000 --dump-dom \
  file://$PWD/page.html 2>/dev/null | cksum
"""

ROWS = [
    Row("chromium", "headless: a picture of a page, and its tree", CHROMIUM, packages="chromium python3-matplotlib", limit_s=120, peers=True),
    Row("firefox", "headless: a picture of a page", PAGE + r"""
HOME=$PWD firefox-esr --headless --no-remote --profile $PWD --window-size 900,1000 --screenshot $PWD/page.png file://$PWD/page.html >log 2>&1 ||
  { tail -5 log; exit 1; }
[ -s page.png ] || { tail -5 log; exit 1; }
/usr/bin/python3 -c 'import matplotlib.image as i; import hashlib; p = i.imread("page.png"); print(p.shape, hashlib.sha256(p.tobytes()).hexdigest())'
""", packages="firefox-esr python3-matplotlib", limit_s=120),
    Row("libreoffice", "a text and a sheet become PDF; what is in them", r"""
{ echo '<html><body><h1>Title</h1>'; for i in $(seq 400); do echo "<p>Paragraph $i with <b>bold</b> and <i>italic</i> words.</p>"; done
  echo '<table border=1>'; for i in $(seq 60); do echo "<tr><td>$i</td><td>$((i * i))</td></tr>"; done; echo '</table></body></html>'; } >text.html
{ for i in $(seq 500); do echo "$i,$((i * 7919 % 101)),name$i"; done; } >sheet.csv
for file in text.html sheet.csv; do
  soffice -env:UserInstallation=file://$PWD/profile --headless --convert-to pdf $file >log 2>&1 || { tail log; exit 1; }
done
pdftotext -layout text.pdf - | cksum
pdftotext -layout sheet.pdf - | cksum
soffice -env:UserInstallation=file://$PWD/profile --headless --convert-to xlsx sheet.csv >log 2>&1
unzip -p sheet.xlsx xl/worksheets/sheet1.xml | cksum
""", packages="libreoffice-writer-nogui libreoffice-calc-nogui poppler-utils unzip", limit_s=120),
]
