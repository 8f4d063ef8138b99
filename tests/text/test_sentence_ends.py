"""Where sentences end, in any text."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from keras_transformer.text.sentence_encoding import split_at_sentence_ends

TEXT = st.text(st.sampled_from('aB.!?。 \n\x85\u00a0\u2028\u3000ä🎉"»(1'), max_size=20)


@given(TEXT, st.sampled_from(["en", "de", "fr", "ja", "xx"]))
def test_nothing_is_lost(text, language):
    assert "".join(split_at_sentence_ends(text, language)) == text


@pytest.mark.parametrize("space", "\u00a0\u2028\u3000\u2009\x85\u1680")
def test_a_wide_space_before_a_full_stop_is_no_failure(space):
    text = f"Vitamin B{space}. Das{space}ist gut. Ja."
    # After a capital the library takes the full stop for that of an abbreviation.
    assert split_at_sentence_ends(text, "de") == [text.removesuffix("Ja."), "Ja."]
