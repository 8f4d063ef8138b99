/* The search matches beginnings of words, so "is" would find "issue". Words that say nothing of what
   a reader looks for are therefore left out of a query, unless it has no others. */
{
  const COMMON = new Set(
    "a an and are as at be by can do does for from how i if in into is it me my of on or our so \
     that the their there this to was we what when where which who why will with you your".split(/\s+/)
  );
  const QUERY = 2; // the type of the message with the words

  window.Worker = class extends window.Worker {
    postMessage(message) {
      if (message.type === QUERY) {
        const words = message.data.trim().split(/\s+/);
        const rest = words.filter((word) => !COMMON.has(word.toLowerCase()));
        if (rest.length) message = { ...message, data: rest.join(" ") };
      }
      super.postMessage(message);
    }
  };
}
