// Sentences to try, for a page without a text.

import { byId, make } from "./elements.js";
import { sourceLanguage } from "./languages.js";

const SENTENCES = {
  de: [
    "Die Kinder spielen im Garten.",
    "Eine Frau liest im Zug ein Buch.",
    "Zwei Hunde laufen am Strand entlang.",
  ],
  en: [
    "The children are playing in the garden.",
    "A woman is reading a book on the train.",
    "Two dogs are running along the beach.",
  ],
  es: [
    "Los niños juegan en el jardín.",
    "Una mujer lee un libro en el tren.",
    "Dos perros corren por la playa.",
  ],
  fr: [
    "Les enfants jouent dans le jardin.",
    "Une femme lit un livre dans le train.",
    "Deux chiens courent sur la plage.",
  ],
};

/** Shows the runs' own examples, or examples in their source language, English by default. */
export function showExamples(runs, onChoose) {
  const language = (sourceLanguage(runs) ?? "en").split("-")[0];
  const isParsed = runs.some(({ kind }) => kind === "parsing");
  const own = runs.flatMap(({ examples }) => examples);
  const sentences = own.length ? own : (SENTENCES[language] ?? []);
  byId("examples").replaceChildren(
    ...sentences.map((sentence) => {
      // A parser expects spaces around punctuation marks.
      const text = isParsed ? sentence.replace(".", " .") : sentence;
      const button = make("button", "example", { type: "button", lang: language }, text);
      button.addEventListener("click", () => onChoose(text));
      return button;
    }),
  );
}
