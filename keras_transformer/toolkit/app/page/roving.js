// One tab stop for a group of elements, in which the arrow keys move.

const STEPS = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 };

/** Makes the arrow keys, Home and End move among the elements that `selector` finds. */
export function rove(group, selector) {
  const items = () => [...group.querySelectorAll(selector)];
  group.addEventListener("keydown", (event) => {
    const all = items();
    const here = all.indexOf(event.target.closest(selector));
    const ends = { Home: 0, End: all.length - 1 };
    const there = ends[event.key] ?? here + (STEPS[event.key] ?? NaN);
    if (here < 0 || !all[there]) return;
    event.preventDefault();
    all[there].focus();
  });
  group.addEventListener("focusin", (event) => {
    const item = event.target.closest(selector);
    if (!item) return;
    for (const other of items()) other.tabIndex = other === item ? 0 : -1;
  });
}

/** Gives a group its tab stop if it has none. */
export function keepStop(group, selector) {
  const items = [...group.querySelectorAll(selector)];
  if (items.length && !items.some((item) => item.tabIndex === 0)) items[0].tabIndex = 0;
}
