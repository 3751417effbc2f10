"""What holds of every page, read by a parser."""

import re
from html.parser import HTMLParser
from itertools import pairwise

EMPTY = {"meta"}


class Page(HTMLParser):
    """Elements of a page; fails where they are not nested."""

    def __init__(self, text):
        super().__init__()
        self.open, self.tags, self.headings, self.text = [], [], [], ""
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag not in EMPTY:
            self.open.append(tag)
        if re.fullmatch(r"h\d", tag):
            self.headings.append([tag, ""])

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if "style" not in self.open:
            self.text += data
        if self.open and re.fullmatch(r"h\d", self.open[-1]):
            self.headings[-1][1] += data


def check(text):
    """What holds of every page."""
    page = Page(text)
    assert [tag for tag, _ in page.headings].count("h1") == 1
    levels = [int(tag[1]) for tag, _ in page.headings]
    assert all(after <= before + 1 for before, after in pairwise(levels))
    assert not {"script", "link", "img", "object", "form", "base"} & {tag for tag, _ in page.tags}
    for tag, attributes in page.tags:
        assert not {"src", "href", "style", "onload", "onerror"} & set(attributes), tag
    assert not re.search(r"url\(|@import|https?://", text)
    ids = [attributes["id"] for _, attributes in page.tags if "id" in attributes]
    assert len(ids) == len(set(ids))
    assert "default-src 'none'" in dict(page.tags[3][1])["content"]
    assert not re.search(r"\bnan\b|\binf\b", page.text)
    return page
