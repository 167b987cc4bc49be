// Requests to the server that this page is from; the token is in the page's own address, so all paths are relative.

export class Refused extends Error {}

async function answer(path, options) {
  const response = await fetch(path, { ...options, cache: "no-store" });
  if (!response.ok) throw new Refused(await response.text());
  return response;
}

export const get = async (path) => (await answer(path)).json();
export const floats = async (path) => new Float32Array(await (await answer(path)).arrayBuffer());
export const post = async (path, content) => (await answer(path, { method: "POST", body: JSON.stringify(content) })).json();
export const upload = async (path, file) => (await answer(path, { method: "POST", body: file })).json();

// Save what the server gives for a request as a file.
export async function download(path, content, name) {
  const blob = await (await answer(path, { method: "POST", body: JSON.stringify(content) })).blob();
  const link = document.createElement("a");
  link.href = URL.createObjectURL(blob);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}

let hide = 0;
export function tellError(error) {
  const node = document.getElementById("error");
  node.textContent = error instanceof Refused ? error.message : "The server does not answer: is kvicreg explore still running?";
  node.hidden = false;
  clearTimeout(hide);
  hide = setTimeout(() => { node.hidden = true; }, 6000);
}
