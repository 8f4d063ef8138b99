"""The order in which the search of the built site shows pages.

It is computed as the site's script does: by Lunr's BM25 without the length of a text, over titles,
texts and tags, for words that begin with the words of the query. Of a page's sections the best one
counts, and a section is worth more the more of the query's words it has. `search-words.js` leaves
common words out of a query, and looks a name with underscores up among the titles.
"""

import collections
import json
import math
import re

FIELDS = {"title": 1e3, "text": 1.0, "tags": 1e6}  # the factor of a match
SATURATION = 1.2  # Lunr's k1: how much a further occurrence of a word adds


class Ranking:
    """The search of a site.

    Args:
        site: the folder with the built site.
    """

    def __init__(self, site):
        index = json.loads((site / "search" / "search_index.json").read_text("utf-8"))
        self.separator = re.compile(index["config"]["separator"])
        (worker,) = (site / "assets" / "javascripts" / "workers").glob("search*.js")
        assert index["config"]["pipeline"] == ["stopWordFilter"]
        listed = re.search(r'\["a","able".*?\]', worker.read_text("utf-8"))
        self.stop_words = set(json.loads(listed[0]))
        script = (site / "assets" / "search-words.js").read_text("utf-8")
        self.common = set(re.search('"(a an [^"]+)"', script)[1].replace("\\", "").split())
        self.documents = {document["location"]: document for document in index["docs"]}
        self.counts = {}  # by word, field and location
        for location, document in self.documents.items():
            for field in FIELDS:
                for word, count in self._words_of(document.get(field, "")).items():
                    fields = self.counts.setdefault(word, {name: {} for name in FIELDS})
                    fields[field][location] = count

    def pages(self, query):
        """Return the addresses of the pages that a query finds, the best one first."""
        best = {}
        for location, score in self._scores(query).items():
            page = location.partition("#")[0]
            best[page] = max(score, best.get(page, 0))
        return sorted(best, key=best.get, reverse=True)

    def _scores(self, query):
        """The score of each section that has a word of the query."""
        words = query.lower().split()
        query = " ".join([word for word in words if word not in self.common] or words)
        starts = [word for word in self.separator.split(query) if word]
        titles = [document["title"] for document in self.documents.values()]
        names = [name for name in words if "_" in name and any(name in title for title in titles)]
        required = {part for name in names for part in name.split("_") if part}
        scores = collections.Counter()
        found = collections.defaultdict(set)  # the words of the query that a section has
        for start in starts:
            for word in (word for word in self.counts if word.startswith(start)):
                for field, factor in FIELDS.items():
                    if start in required and field != "title":
                        continue
                    for location, count in self.counts[word][field].items():
                        scores[location] += factor * self._weight(word, count, location)
                        found[location].add(start)
        for location in [*scores]:
            if not required <= found[location]:
                del scores[location]
                continue
            wanted = {start for start in starts if start not in self.stop_words} | found[location]
            share = len(found[location]) / len(wanted)
            scores[location] *= 1 + (("#" not in location) + share) ** 2
        return scores

    def _weight(self, word, count, location):
        total = sum(len(locations) for locations in self.counts[word].values())
        rarity = math.log(1 + abs((len(self.documents) - total + 0.5) / (total + 0.5)))
        boost = self.documents[location].get("boost", 1)
        return boost * rarity * (SATURATION + 1) * count / (SATURATION + count)

    def _words_of(self, field):
        """Count the words of a text in HTML, or of a list of tags."""
        text = field if isinstance(field, str) else " ".join(field)
        words = (
            word.lower()
            for part in re.split(r"<[^>]*>", text)
            for word in self.separator.split(part)
        )
        return collections.Counter(word for word in words if word and word not in self.stop_words)
