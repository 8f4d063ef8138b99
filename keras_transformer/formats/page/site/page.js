// The page: splits the text into sentences, lets the worker translate them and shows the words.
// Text is always set as text, never as HTML.

const byId = (id) => document.getElementById(id);
const [area, backdrop, output] = ["text", "backdrop", "translation"].map(byId);
const { source, target, config } = JSON.parse(byId("settings").textContent);
const ENTITIES = { "<": "&lt;", ">": "&gt;", "&": "&amp;" };
const VISIBLE = /[\p{L}\p{N}\p{P}\p{S}]/u; // other sentences may have no tokens
const UNSEEN = /(?![\n\t])\p{Cc}|\p{Cs}/gu; // control characters and halves of characters
const KEPT = 5000; // translations of sentences
const DELAY = 150; // milliseconds after the last key
const PAUSE = 100; // least milliseconds between changes of the page; a long one takes longer
// A period after these words does not end a sentence.
const ABBREVIATION = /(^|[\s(])((?!I)\p{Lu}|Mr|Mrs|Ms|Dr|Prof|St|No|Nr|Sr|Sra|Jr|Hr|Fr|vs|z\.\s?B)\.[^\S\n]$/u;
const known = new Map(); // the words of translated sentences
let sentences = []; // {text, start, element, words}, in the order of the text
let timer = 0; // of an update to come
let worker = null;
let sent = null; // the text that the worker is translating
let next = 0; // the first sentence that may have to be sent
let display = 0; // timer of the next change of the page

/** The content of a part, which is Base64 in the page or a file next to it; compressed by gzip. */
async function unpack(name) {
  const element = byId(name);
  if (!element) return new Uint8Array();
  const { url } = element.dataset;
  let bytes;
  if (url) {
    const response = await fetch(url);
    if (!response.ok) throw new Error(`${url} is missing.`);
    bytes = new Uint8Array(await response.arrayBuffer());
  } else {
    const text = atob(element.textContent);
    element.remove();
    bytes = new Uint8Array(text.length);
    for (let i = 0; i < text.length; i += 1) bytes[i] = text.charCodeAt(i);
  }
  if (bytes[0] !== 0x1f || bytes[1] !== 0x8b) return bytes; // the server has decompressed it
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

async function start() {
  const names = ["worker", "engine", "wasm", "model", "shortlist", "vocabulary", "target_vocabulary"];
  const [glue, engine, wasm, model, shortlist, ...all] = await Promise.all(names.map(unpack));
  const vocabularies = all.filter((bytes) => bytes.length);
  const url = URL.createObjectURL(new Blob([glue, engine], { type: "text/javascript" }));
  startWorker(url, { wasm, model, shortlist, vocabularies, config });
}

function startWorker(url, files) {
  const started = new Worker(url);
  started.onerror = (event) => fail(event.message);
  started.onmessage = ({ data: { html, fault } }) => {
    if (fault && !worker) return fail(fault);
    if (sent !== null) keep(sent, fault ? [[sent, null]] : parse(html));
    sent = null;
    worker = fault ? null : started;
    // An engine that has failed cannot translate anything else.
    if (fault) started.terminate();
    if (fault) startWorker(url, files);
    proceed();
  };
  started.postMessage(files);
}

function fail(message) {
  byId("fault").textContent = `The model cannot be loaded: ${message}`;
  byId("fault").hidden = false;
  byId("progress").textContent = "";
}

/** The words of a sentence with their places. */
function wordsOf(text) {
  return [...text.matchAll(/\S+/g)];
}

/** The sentence with its words numbered, for the engine. */
function numbered(text) {
  let index = 0;
  const escaped = text.replace(/[<>&]/g, (character) => ENTITIES[character]);
  return escaped.replace(/\S+/g, (word) => `<b id="${index++}">${word}</b>`);
}

/** The translation as pairs of a text and the number of its source word, or null. */
function parse(html) {
  const plain = Object.fromEntries(Object.entries(ENTITIES).map((pair) => pair.reverse()));
  let number = null;
  const words = [];
  for (const [part, id] of html.matchAll(/<b id="(\d+)">|<[^>]*>|[^<]+/g)) {
    if (part[0] === "<") number = id === undefined ? null : Number(id);
    else words.push([part.replace(/&(lt|gt|amp);/g, (entity) => plain[entity]), number]);
  }
  return words;
}

function keep(text, words) {
  if (known.size >= KEPT) known.delete(known.keys().next().value);
  known.set(text, words);
}

/** The sentences of the text, without the spaces around them, and where they start. */
function split(text) {
  const found = [];
  let start = 0;
  const segmenter = new Intl.Segmenter(source ?? undefined, { granularity: "sentence" });
  for (const { segment, index } of segmenter.segment(text)) {
    const end = index + segment.length;
    const piece = text.slice(start, end);
    if (ABBREVIATION.test(piece) && end < text.length) continue;
    if (VISIBLE.test(piece)) found.push({ text: piece.trim(), start: start + piece.search(/\S/) });
    start = end;
  }
  return found;
}

/** Reads the text again; sentences that have not changed keep their elements. */
function update() {
  const text = area.value.replace(UNSEEN, " ");
  const [old, found] = [sentences, split(text)];
  const shorter = Math.min(old.length, found.length);
  let first = 0; // number of equal sentences at the start
  while (first < shorter && old[first].text === found[first].text) first += 1;
  let last = 0; // at the end
  while (last < shorter - first && old.at(-1 - last).text === found.at(-1 - last).text) last += 1;
  const moved = old.length - found.length;
  sentences = found.map((sentence, index) => {
    const place = index < first ? index : index < found.length - last ? -1 : index + moved;
    const { element, words = null } = old[place] ?? { element: document.createElement("span") };
    return { ...sentence, element, words };
  });
  timer = 0;
  next = 0;
  mark();
  const nodes = [];
  let end = 0;
  for (const { text: own, start, element } of sentences) {
    nodes.push(text.slice(end, start), element);
    end = start + own.length;
  }
  output.replaceChildren(...nodes);
  proceed();
}

/** Sends the next sentence to the worker, and shows what is known unless it was shown just now. */
function proceed() {
  if (worker && sent === null) {
    while (next < sentences.length && known.has(sentences[next].text)) next += 1;
    sent = sentences[next]?.text ?? null;
    if (sent !== null) worker.postMessage(numbered(sent));
  }
  display ||= setTimeout(showKnown, sent === null ? 0 : Math.max(PAUSE, sentences.length));
}

function showKnown() {
  display = 0;
  for (const sentence of sentences) {
    if (!sentence.words && known.has(sentence.text)) show(sentence, known.get(sentence.text));
  }
  if (!worker) return;
  const done = sentences.filter(({ words }) => words).length;
  const count = `${sentences.length} sentence${sentences.length === 1 ? "" : "s"}`;
  const isDone = done === sentences.length;
  byId("progress").textContent = !isDone ? `${done} of ${count}` : done ? count : "";
  output.ariaBusy = String(timer > 0 || !isDone);
  if (isDone && done) announce(`Translated ${count}.`);
}

function make(text, classes) {
  const element = document.createElement("span");
  element.className = classes;
  element.textContent = text;
  return element;
}

function show(sentence, words) {
  sentence.words = words;
  const nodes = words.map(([text, number]) => {
    if (number === null) return text;
    const element = make(text, "word");
    element.dataset.number = number;
    return element;
  });
  sentence.element.replaceChildren(...nodes);
}

function announce(text) {
  if (byId("announcer").textContent !== text) byId("announcer").textContent = text;
}

/** Marks a source word and its translations, or nothing. Returns the source word. */
function mark(sentence, number) {
  for (const element of output.querySelectorAll(".linked")) element.classList.remove("linked");
  const word = sentence && wordsOf(sentence.text)[number];
  const text = area.value;
  if (!word) {
    backdrop.textContent = `${text}\n`;
    return "";
  }
  for (const element of sentence.element.querySelectorAll(`[data-number="${number}"]`)) {
    element.classList.add("linked");
  }
  const start = sentence.start + word.index;
  const linked = document.createElement("mark");
  linked.className = "linked";
  linked.textContent = word[0];
  backdrop.replaceChildren(text.slice(0, start), linked, `${text.slice(start + word[0].length)}\n`);
  return word[0];
}

function markElement(element) {
  const sentence = sentences.find((one) => one.element === element?.parentElement);
  return mark(sentence, element?.dataset.number);
}

/** Marks the word at the caret. */
function markCaret() {
  if (timer || document.activeElement !== area) return;
  const caret = area.selectionStart;
  const sentence = sentences.findLast(({ start }) => start <= caret);
  const place = caret - (sentence?.start ?? 0);
  const words = wordsOf(sentence?.text ?? "");
  mark(sentence, words.findIndex(({ 0: word, index }) => index <= place && place <= index + word.length));
}

area.addEventListener("input", () => {
  backdrop.textContent = `${area.value}\n`;
  output.ariaBusy = "true";
  clearTimeout(timer);
  timer = setTimeout(update, DELAY);
});
area.addEventListener("focus", markCaret);
document.addEventListener("selectionchange", markCaret);
output.addEventListener("pointerover", (event) => markElement(event.target.closest(".word")));
output.addEventListener("pointerleave", () => mark());
output.addEventListener("blur", () => mark());
output.addEventListener("keydown", (event) => {
  const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
  if (!step) return;
  event.preventDefault();
  const words = [...output.querySelectorAll(".word")];
  const current = words.indexOf(output.querySelector(".current"));
  const chosen = words[Math.min(Math.max(current + step, 0), words.length - 1)];
  words[current]?.classList.remove("current");
  if (!words.length) return;
  chosen.classList.add("current");
  chosen.scrollIntoView({ block: "nearest" });
  announce(`${chosen.textContent.trim()}: ${markElement(chosen)}`);
});
byId("clear").addEventListener("click", () => {
  area.value = "";
  update();
  area.focus();
});
byId("copy").addEventListener("click", async ({ currentTarget: button }) => {
  const label = [...button.childNodes];
  try {
    await navigator.clipboard.writeText(output.textContent);
    button.textContent = "Copied";
  } catch {
    button.textContent = "Cannot copy";
  }
  announce(button.textContent);
  setTimeout(() => button.replaceChildren(...label), 1500);
});

const name = (code) => new Intl.DisplayNames(["en"], { type: "language", fallback: "code" }).of(code);
if (source && target) {
  document.title = byId("title").textContent = `${name(source)} to ${name(target)}`;
}
if (!("Segmenter" in Intl) || !("DecompressionStream" in self)) fail("this browser is too old.");
else start().catch((error) => fail(error.message));
update();
