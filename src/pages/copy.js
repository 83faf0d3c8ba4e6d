/** Copies the text of an element, and buttons for it. Each page's script follows it in the same file. */

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

/** Makes the button copy, and show the result for two seconds. `copyText` resolves to whether the text was copied. */
export function copyOnClick(button, copyText) {
  const label = button.textContent;
  // Announces the result to a screen reader.
  button.ariaLive = 'polite';
  button.addEventListener('click', async () => {
    button.textContent = (await copyText()) ? 'Copied' : 'Copy the selection';
    setTimeout(() => {
      button.textContent = label;
    }, 2000);
  });
}
