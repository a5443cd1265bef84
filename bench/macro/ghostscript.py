"""Ghostscript renders a generated PostScript file to pixels: paths, text, shading, transparency, dictionaries.

The interpreter keeps its objects in chunks of 16 to 64 KiB that it takes from malloc and collects itself, and so does
the graphics library with paths and clip lists; each page has buffers of some hundred KiB that come and go. Few calls,
large blocks: what shows is how an allocator rounds them, and whether it keeps what is freed. One thread.
"""
from suite import catalog
from suite.context import checksum

PAGES = {"tiny": (1, 20), "quick": (2, 160), "full": (2, 260)}
SCRIPT = r"""%!PS
/seed 1 def /draw { /seed seed 16807 mul 2147483647 mod cvi def seed exch mod } def
/curveto4 { 2 copy curveto } def
1 1 PAGES { /page exch def
  /words 2000 dict def
  0 1 1999 { /i exch def words i 12 string cvs cvn [ i page 10 array ] put } for
  /all [ words { pop } forall ] def
  0 1 SHAPES { /i exch def
    gsave 300 400 translate i 7 mul rotate i SHAPES 1 add div 0.3 page PAGES div setrgbcolor
    newpath 0 0 moveto 0 1 40 { /k exch def 200 i add 97 k mul i add 300 mod 60 k 11 mul i 7 mul 260 mod curveto4 } for
    closepath i 3 mod 0 eq { clip newpath 20 i moveto 200 i 2 mul lineto 50 i 120 0 360 arc fill } { eofill } ifelse
    grestore
  } for
  0 1 60 { /i exch def
    [ /Helvetica /Times-Roman /Courier ] i 3 mod get findfont i 9 mod 5 add scalefont setfont
    30 20 i 12 mul add moveto 0 1 11 { i mul page add 20 string cvs show ( line of text ) show } for
  } for
  << /ShadingType 2 /ColorSpace /DeviceRGB /Coords [0 0 600 page 40 mul] /Extend [true true]
     /Function << /FunctionType 2 /Domain [0 1] /C0 [1 0 page 20 div] /C1 [0 1 0] /N 1 >> >>
  gsave newpath 300 400 150 0 360 arc clip shfill grestore
  showpage
} for
"""


def prepare(folder, scale):
    pages, shapes = PAGES[scale]
    (folder / "in.ps").write_text(SCRIPT.replace("PAGES", str(pages)).replace("SHAPES", str(shapes)))


def run(context):
    out = context.scratch / "out.ppm"
    context.finish(["gs", "-q", "-dBATCH", "-dNOPAUSE", "-dSAFER", "-sDEVICE=ppmraw", "-r100", "-dTextAlphaBits=4",
                    "-dGraphicsAlphaBits=2", f"-sOutputFile={out}", "in.ps"], cwd=context.folder)
    return checksum(out)


WORKLOAD = catalog.Program(name="ghostscript", group="programs", needs=[("gs", "ghostscript")], prepare=prepare,
                           run=run, sentence="Ghostscript renders generated pages: few blocks, large ones")
