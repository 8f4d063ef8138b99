// Word alignments of a run: alignments requested during a request share the next request.

import { post, RequestFailed } from "./client.js";

const MOST_PAIRS = 25; // per request: the next sentences wait for it

export class Aligner {
  constructor(run) {
    this.run = run;
    this.language = null;
    this.waiting = []; // {source, target, resolve, key}
    this.isBusy = false;
    this.known = new Map(); // promises by source and target
  }

  /** Forgets all alignments, because the text or the language has changed. */
  reset(language) {
    this.refuse(this.waiting.splice(0));
    if (this.language !== language || this.known.size > 1000) this.known.clear();
    this.language = language;
  }

  /** The alignment of a pair, or null if the app refuses it. */
  align(source, target) {
    const key = JSON.stringify([source, target]);
    if (!this.known.has(key)) {
      this.known.set(
        key,
        new Promise((resolve) => this.waiting.push({ source, target, resolve, key })),
      );
      this.ask();
    }
    return this.known.get(key);
  }

  async ask() {
    if (this.isBusy || !this.waiting.length) return;
    this.isBusy = true;
    const asked = this.waiting.splice(0, MOST_PAIRS);
    try {
      await this.request(asked);
    } finally {
      this.isBusy = false;
      this.ask();
    }
  }

  async request(asked) {
    const pairs = asked.map(({ source, target }) => ({ source, target }));
    const body = { run: this.run.name, pairs, target_language: this.language };
    try {
      const { alignments } = await post("api/align", body);
      asked.forEach(({ resolve }, index) => resolve(alignments[index]));
    } catch (error) {
      if (!(error instanceof RequestFailed)) throw error;
      if (asked.length === 1) this.refuse(asked);
      else for (const one of asked) await this.request([one]); // one pair may spoil the request
    }
  }

  /** Gives up on pairs; they may be requested again. */
  refuse(asked) {
    for (const { resolve, key } of asked) {
      this.known.delete(key);
      resolve(null);
    }
  }
}

/** The words aligned with a word: {source, target}, sets of indices. */
export function linkedWords(alignment, side, word) {
  const source = new Set();
  const target = new Set();
  (side === "source" ? source : target).add(word);
  for (const [from, to] of alignment.pairs) {
    if (side === "source" && from === word) target.add(to);
    if (side === "target" && to === word) source.add(from);
  }
  return { source, target };
}
