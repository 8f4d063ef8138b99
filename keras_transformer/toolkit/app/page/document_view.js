// A translated document with markup: its source and, for HTML, a preview.

import { make } from "./elements.js";

/**
 * The elements that show a document. The frame is a page of its own without any rights, so scripts
 * and forms do not work in it. It inherits the content security policy of this page, which blocks
 * what it would load from other sites.
 */
export function showDocument(text, markup, language) {
  const source = make("div", "document", { dir: "auto", lang: language }, text);
  if (markup !== "html") return [source];
  const frame = make("iframe", "preview", { sandbox: "", title: "Preview of the translation" });
  // A new window is not allowed either, so links leave the preview alone.
  frame.srcdoc = `<!doctype html><base target="_blank">${text}`;
  return [frame, make("h3", "", {}, "Source"), source];
}
