/** Copies the text of an element. Each page's script follows it in the same file. */

/** Resolves to whether the text of the element, or another text in its place, was copied. The element is selected in any case. */
export async function copy(element, text = element.textContent) {
  getSelection().selectAllChildren(element);
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    // Over plain http from another machine, navigator.clipboard does not exist.
    const put = (event) => {
      event.clipboardData.setData('text/plain', text);
      event.preventDefault();
    };
    document.addEventListener('copy', put, { once: true });
    const copied = document.execCommand('copy');
    document.removeEventListener('copy', put);
    return copied;
  }
}
