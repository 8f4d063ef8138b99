// Elements of the page. Text is always set as text, never as HTML.

/** An element with classes, attributes and children; strings become text. */
export function make(tag, classes = "", attributes = {}, ...children) {
  const element = document.createElement(tag);
  if (classes) element.className = classes;
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children);
  return element;
}

export function makeSvg(tag, attributes = {}, ...children) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children);
  return element;
}

export function byId(id) {
  return document.getElementById(id);
}

/** Announces something to users of screen readers, without interrupting them. */
export function announce(text) {
  byId("announcer").textContent = text;
}

/** A number with its noun: "1 sentence", "5 sentences". */
export function count(number, noun) {
  return `${number.toLocaleString("en")} ${noun}${number === 1 ? "" : "s"}`;
}

export function scoreText(score) {
  return score === null ? "no score" : score.toFixed(2).replace("-", "−");
}

/** A button that copies the result of `text()` and confirms it; `what` is for screen readers. */
export function makeCopyButton(what, text) {
  const label = ["Copy", make("span", "unseen", {}, ` ${what}`)];
  const button = make("button", "quiet copy", { type: "button" }, ...label);
  button.addEventListener("click", async () => {
    try {
      await navigator.clipboard.writeText(text());
      button.textContent = "Copied";
    } catch {
      button.textContent = "Cannot copy";
    }
    announce(button.textContent);
    setTimeout(() => button.replaceChildren(...label), 1500);
  });
  return button;
}
