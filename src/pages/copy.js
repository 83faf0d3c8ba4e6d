/** Copies the text of an element. Each page's script follows it in the same file. */

/** Resolves to whether the text of the element was copied. It is selected in any case. */
export async function copy(element) {
  getSelection().selectAllChildren(element);
  try {
    await navigator.clipboard.writeText(element.textContent);
    return true;
  } catch {
    // Over plain http from another machine, navigator.clipboard does not exist.
    return document.execCommand('copy');
  }
}
