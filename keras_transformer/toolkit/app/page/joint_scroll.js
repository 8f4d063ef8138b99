// Areas that scroll together: the text and its translations show the same sentence side by side.

export class JointScroll {
  constructor() {
    this.areas = []; // {element, sentences, listener, expected}: the position `lead` scrolled it to
    this.leader = null; // the area that was scrolled last
    this.frame = null;
  }

  /** Sets the areas: {element, sentences()}. `sentences` returns the elements of the sentences, in
      the same order in each area, or none where they are not known. */
  join(areas) {
    for (const { element, listener } of this.areas) {
      element.removeEventListener("scroll", listener);
    }
    this.areas = areas.map((area) => ({ ...area, expected: null }));
    this.leader = null;
    for (const area of this.areas) {
      area.listener = () => this.onScroll(area);
      area.element.addEventListener("scroll", area.listener, { passive: true });
    }
  }

  /** Makes the other areas follow again, because their texts have changed. */
  refresh() {
    cancelAnimationFrame(this.frame);
    this.frame = requestAnimationFrame(() => this.leader && this.lead(this.leader));
  }

  onScroll(area) {
    const { expected, element } = area;
    if (expected !== null && Math.abs(element.scrollTop - expected) < 1) return; // done by `lead`
    this.leader = area;
    this.lead(area);
  }

  lead(leader) {
    leader.expected = null;
    const { element } = leader;
    const hidden = element.scrollHeight - element.clientHeight;
    if (hidden <= 0) return;
    // At the top, the first lines are next to each other; at the bottom, the last lines.
    const part = element.scrollTop / hidden;
    const place = element.scrollTop + part * element.clientHeight;
    for (const area of this.areas) {
      if (area === leader) continue;
      const there = placeIn(area, leader, place) - part * area.element.clientHeight;
      area.element.scrollTop = there;
      area.expected = area.element.scrollTop;
    }
  }
}

/** The position in an area next to a position in the leader, both in pixels from the top. */
function placeIn(area, leader, place) {
  const from = marks(leader);
  let to = marks(area);
  if (from.length !== to.length) {
    from.splice(1, from.length - 2);
    to = [to[0], to.at(-1)]; // in proportion
  }
  const next = from.findIndex((top) => top > place);
  if (next < 1) return to.at(-1);
  const [start, end] = from.slice(next - 1, next + 1);
  const share = (place - start) / (end - start);
  return to[next - 1] + share * (to[next] - to[next - 1]);
}

/** The tops of the sentences, between the top and the bottom of the area's content. */
function marks({ element, sentences }) {
  const top = element.getBoundingClientRect().top - element.scrollTop;
  const tops = sentences().map((one) => (one.getClientRects()[0]?.top ?? top) - top);
  return [0, ...tops, element.scrollHeight];
}
