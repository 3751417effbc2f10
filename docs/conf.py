"""How Sphinx builds the site (`make docs`).

The source folder is the root of the repository, so that links between docs/, experiments/ and
benchmarks/ are the same on the site as in a checkout. `docs/reference/` is written anew by
`reference_pages`, from the public names of the library: no page lists them by hand.
"""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

import privem

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "docs"))
import reference_pages  # noqa: E402

reference_pages.write(ROOT / "docs" / "reference")

# Tutorials run without the start-up files of whoever builds. A kernel that talks to this process
# alone need not warn that it does so without encryption.
profile = ROOT / "build" / "ipython" / "profile_default"
profile.mkdir(parents=True, exist_ok=True)
(profile / "ipython_kernel_config.py").write_text("c.IPKernelApp.log_level = 'ERROR'\n", "utf-8")
os.environ["IPYTHONDIR"] = str(profile.parent)

project = "privem"
author = "The privem maintainers"
copyright = "The privem maintainers"
release = privem.__version__
version = release

extensions = [
    "myst_nb",
    "sphinx.ext.autodoc",
    "numpydoc",
    "sphinx.ext.viewcode",
    "sphinx_copybutton",
    "sphinx_design",
]
root_doc = "docs/index"
include_patterns = [
    "docs/**",
    "experiments/*/README.md",
    "benchmarks/README.md",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "CODE_OF_CONDUCT.md",
    "SECURITY.md",
    "README.md",
]
templates_path = ["templates"]
source_suffix = {".md": "myst-nb", ".rst": "restructuredtext"}

myst_enable_extensions = ["colon_fence", "deflist", "attrs_inline"]
# Every heading can be linked to, with the anchors that GitHub makes.
myst_heading_anchors = 4
nb_execution_mode = "cache"
nb_execution_in_temp = True
nb_execution_timeout = 300
nb_execution_raise_on_error = True
nb_execution_cache_path = str(ROOT / "build" / "tutorials")
# A tutorial prints no warnings; one that does stops the build.
nb_output_stderr = "error"
nb_merge_streams = True

autodoc_member_order = "bysource"
autodoc_typehints = "none"
toc_object_entries_show_parents = "hide"
# Members are autodoc's to list.
numpydoc_show_class_members = False
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True

html_theme = "pydata_sphinx_theme"
html_title = "privem"
html_static_path = ["static"]
html_css_files = ["site.css"]
html_js_files = ["site.js"]
html_context = {"default_mode": "auto"}
html_extra_path = ["root"]
html_show_sourcelink = False
html_copy_source = False
html_favicon = "static/mark.svg"
html_sidebars = {"docs/index": []}
html_theme_options = {
    "logo": {"text": "privem", "image_light": "static/mark.svg", "image_dark": "static/mark.svg"},
    "navbar_align": "left",
    "navigation_with_keys": False,
    "show_prev_next": True,
    "show_toc_level": 2,
    "header_links_before_dropdown": 7,
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["copyright"],
    "footer_end": ["sphinx-version"],
    "pygments_light_style": "a11y-high-contrast-light",
    "pygments_dark_style": "a11y-high-contrast-dark",
}


def skip(app: object, kind: str, name: str, value: object, skipped: bool, options: object) -> bool:
    """Leave out what scikit-learn and Python add to a class: it is documented there."""
    return skipped or not str(getattr(value, "__module__", None) or "privem").startswith("privem")


def lead_back(app: object, page: str, template: str, context: dict[str, str], tree: object) -> None:
    """Correct links from a source file of which some names are public in privem, some below it."""
    if not page.startswith("_modules/"):
        return
    known = app.env.get_domain("py").objects  # type: ignore[attr-defined]

    def correct(link: re.Match[str]) -> str:
        name = (
            link[3] if link[3] in known else f"privem.{link[2]}.{link[3].removeprefix('privem.')}"
        )
        return f'{link[1]}#{name}"'

    context["body"] = re.sub(
        r'(/reference/(\w+)\.html)#(privem\.[\w.]+)"', correct, context["body"]
    )


def setup(app: object) -> None:
    """Connect what this file defines to Sphinx."""
    app.connect("autodoc-skip-member", skip)  # type: ignore[attr-defined]
    app.connect("html-page-context", lead_back)  # type: ignore[attr-defined]
