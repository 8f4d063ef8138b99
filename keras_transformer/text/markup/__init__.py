"""Translate documents with markup: HTML, XML and Markdown."""

from keras_transformer.text.markup.marked_document import MarkedDocument as MarkedDocument
from keras_transformer.text.markup.marked_document import Translation as Translation
from keras_transformer.text.markup.marked_document import parse_markup as parse_markup
from keras_transformer.text.markup.segments import Protected as Protected
from keras_transformer.text.markup.segments import Segment as Segment
from keras_transformer.text.markup.segments import Tag as Tag
