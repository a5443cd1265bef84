"""How the site looks: Sphinx's settings. scripts/website.py runs it on copies of the Markdown files."""
project = "libmimalloc"
extensions = ["myst_parser", "sphinx.ext.githubpages"]
root_doc = "index"
# Links to headings are what they are called elsewhere.
myst_heading_anchors = 6

html_theme = "furo"
html_static_path = ["style.css"]
html_css_files = ["style.css"]
html_copy_source = html_show_copyright = False
highlight_language = "none"

# Sphinx has no word for a part of the site that it did not make.
templates_path = ["."]
html_sidebars = {"**": ["sidebar/brand.html", "sidebar/search.html", "sidebar/scroll-start.html",
                        "sidebar/navigation.html", "reference.html", "sidebar/scroll-end.html"]}
html_use_index = False
