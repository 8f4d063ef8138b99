// Client of the JSON interface.

/** A request was refused or not answered; the message is for people. */
export class RequestFailed extends Error {}

export async function get(path) {
  return content(await answered(fetch(path)));
}

export async function post(path, body, signal) {
  return content(await answered(sent(path, body, signal)));
}

/** Yields the lines of a stream as they arrive. */
export async function* stream(path, body, signal) {
  const response = await answered(sent(path, body, signal));
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  let isComplete = false;
  for (;;) {
    const { value, done } = await reader.read().catch((error) => {
      throw failure(error);
    });
    if (done) break;
    const lines = (rest + value).split("\n");
    rest = lines.pop();
    for (const line of lines) {
      const event = JSON.parse(line);
      if (event.event === "error") throw new RequestFailed(event.error.message);
      isComplete = event.event === "end";
      yield event;
    }
  }
  if (!isComplete) throw new RequestFailed("The answer was interrupted. Is the app still running?");
}

function content(response) {
  return response.json().catch((error) => {
    throw failure(error);
  });
}

function sent(path, body, signal) {
  return fetch(path, {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify(body),
    signal,
  });
}

async function answered(promise) {
  let response;
  try {
    response = await promise;
  } catch (error) {
    throw failure(error);
  }
  if (response.ok) return response;
  const answer = await response.json().catch(() => null);
  const fault = `The app answered with status ${response.status}.`;
  throw new RequestFailed(answer?.error?.message ?? fault);
}

function failure(error) {
  if (error.name === "AbortError") return error;
  return new RequestFailed("The app does not answer. Is it still running?");
}
