"""Documents in frames are parts of the page."""

from docs.tools.frame_documents import with_documents


def test_a_frame_gets_the_content_of_its_document(tmp_path):
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "b.html").write_text('<p class="c">1 & 2</p>', "utf-8")
    shown = with_documents('<p>x</p><iframe src="a/b.html" height="3"></iframe>', tmp_path)
    content = "&lt;p class=&quot;c&quot;&gt;1 &amp; 2&lt;/p&gt;"
    assert shown == f'<p>x</p><iframe srcdoc="{content}" height="3"></iframe>'


def test_frames_of_other_sites_stay(tmp_path):
    frame = '<iframe src="https://example.org/a.html"></iframe>'
    assert with_documents(frame, tmp_path) == frame
