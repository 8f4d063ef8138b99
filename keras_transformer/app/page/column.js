// What all runs' columns share: a head, the request that is under way, and its outcome.

import { RequestFailed, stream } from "./client.js";
import { announce, count, make } from "./elements.js";

const NAMES = new Intl.DisplayNames(["en"], { type: "language", fallback: "code" });

/** What a run reads and writes, such as "English to German"; empty where it does not say. */
export function languagesOf({ source_language: source, target_language: target }) {
  return source && target ? `${NAMES.of(source)} to ${NAMES.of(target)}` : "";
}

export class Column {
  /** `run` is of the JSON interface; `path` is that of its stream. */
  constructor(run, path, ...actions) {
    this.run = run;
    this.path = path;
    this.request = null; // the one under way
    this.status = make("p", "muted");
    this.fault = make("p", "fault", { role: "alert" });
    this.fault.hidden = true;
    const title = make("h2", "", {}, run.name);
    const languages = make("p", "muted", {}, languagesOf(run));
    languages.hidden = !languages.textContent;
    this.head = make("div", "panel-head", {}, title, languages, this.status, ...actions);
    this.element = make("section", "panel column", { "aria-label": run.name }, this.head);
  }

  get isBusy() {
    return this.request !== null;
  }

  stop() {
    this.request?.abort();
    this.request = null;
    this.status.textContent = "";
  }

  /** Ends the request under way for good: what was not computed will not come. */
  halt() {
    if (!this.isBusy) return;
    this.stop();
    this.breakOff();
  }

  /** Says why a text is not sent. */
  refuse(message) {
    this.halt();
    this.status.textContent = "";
    this.setFault(message);
  }

  /** Sends a text in place of the one before; the results come in by `begin` and `add`. */
  async send(text, settings) {
    this.stop();
    const request = new AbortController();
    this.request = request;
    this.setFault("");
    let total = 0;
    let done = 0;
    try {
      const body = { text, run: this.run.name, ...settings };
      for await (const event of stream(this.path, body, request.signal)) {
        if (this.request !== request) return;
        if (event.event === "start") {
          total = event.sentences.length;
          this.begin(text, event.sentences);
        } else if (event.event === "sentence") {
          done += 1;
          this.add(event);
        }
        if (event.event !== "end") this.status.textContent = `${done} of ${total}`;
      }
      this.status.textContent = count(total, "sentence");
      announce(`${this.run.name}: ${count(total, "sentence")}`);
    } catch (error) {
      if (this.request !== request) return; // stopped, or another text was sent
      if (!(error instanceof RequestFailed)) throw error;
      this.status.textContent = "";
      this.setFault(error.message);
      this.breakOff();
    } finally {
      if (this.request === request) this.request = null;
    }
  }

  setFault(message) {
    this.fault.textContent = message;
    this.fault.hidden = !message;
  }
}
