"""docs/glossary.md is in alphabetical order and complete; docs/faq.md answers questions."""

import dataclasses
import re

from keras_transformer.search_options import SearchOptions
from tests.pages.page import Page

GLOSSARY, FAQ = Page("docs/glossary.md"), Page("docs/faq.md")
TERMS = re.findall(r"^## (.+)$", GLOSSARY.text, re.MULTILINE)


def test_terms_are_in_alphabetical_order():
    assert len(TERMS) >= 50
    assert sorted(TERMS, key=str.lower) == TERMS
    assert len(set(TERMS)) == len(TERMS)


def test_each_term_has_one_or_two_sentences():
    for _, text in re.findall(r"^## (.+)\n\n(.+)$", GLOSSARY.text, re.MULTILINE):
        without_links = re.sub(r"\]\(.*?\)", "]", text)
        assert 1 <= len(re.findall(r"[.)](?= |$)", without_links)) <= 4
        assert len(text.split()) < 50


def test_the_default_alpha_is_the_package_s():
    (alpha,) = (field for field in dataclasses.fields(SearchOptions) if field.name == "alpha")
    assert f"the default is {alpha.default}" in GLOSSARY.text


def test_the_answers_follow_questions():
    questions = re.findall(r"^### (.+)$", FAQ.text, re.MULTILINE)
    assert len(questions) >= 20
    assert [question for question in questions if not question.endswith("?")] == []
    answers = re.split(r"^##+ .+$", FAQ.text, flags=re.MULTILINE)[1:]
    assert max(len(answer.split()) for answer in answers) < 130
