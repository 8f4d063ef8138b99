/* The search matches beginnings of words, so "is" would find "issue". Words that say nothing of what
   a reader looks for are therefore left out of a query, unless it has no others. The search also
   splits names at underscores and finds any of the parts, so a name that is a title is looked up
   among the titles, with all of its parts. */
{
  const COMMON = new Set(
    "a an and are as at be by can do does for from how i if in into is it me my of on or our so \
     that the their there this to was we what when where which who why will with you your".split(/\s+/)
  );
  const SETUP = 0; // the type of the message with the titles
  const QUERY = 2; // the type of the message with the words
  let titles = [];

  const inTitles = (word) =>
    word.includes("_") && titles.some((title) => title.includes(word))
      ? word.split("_").filter(Boolean).map((part) => `+title:${part}*`).join(" ")
      : word;

  window.Worker = class extends window.Worker {
    postMessage(message) {
      if (message.type === SETUP) titles = message.data.docs.map(({ title }) => title);
      if (message.type === QUERY) {
        const words = message.data.trim().split(/\s+/);
        const rest = words.filter((word) => !COMMON.has(word.toLowerCase()));
        message = { ...message, data: (rest.length ? rest : words).map(inTitles).join(" ") };
      }
      super.postMessage(message);
    }
  };
}
