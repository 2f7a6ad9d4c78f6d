/** The address to return to after a sign-in at another site, which comes back to the first page. */

const NAME = "outlast.return";

/** Whether it is an address of this page, and not of another site. */
export function isOwn(to: string | null): to is string {
  return to !== null && /^\/(?![/\\])/.test(to);
}

/** Go there when this tab comes back. */
export function returnLater(to: string): void {
  sessionStorage.setItem(NAME, to);
}

/** Where this tab has to return to, asked once. */
export function takeReturn(): string | null {
  const to = sessionStorage.getItem(NAME);
  sessionStorage.removeItem(NAME);
  return isOwn(to) ? to : null;
}
