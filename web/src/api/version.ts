import { create } from "zustand";
import { ROOT } from "./client";
import { useLive } from "./live";

/** Whether the server has a newer page than this one. */
export const useVersion = create<{ isNewer: boolean }>(() => ({ isNewer: false }));

const RELOADED = "outlast.reloaded";

/**
 * After each reconnection, look whether the server has a newer page. It is loaded at once, unless `mayReload` says no: then
 * the person is asked. A page is reloaded once for each version that the server has.
 */
export function watchVersion(mayReload: () => boolean): void {
  const own = scriptOf(document);
  if (!own) return; // the development server has no built page
  let opened = 0;
  useLive.subscribe(({ state }) => {
    if (state.is === "live" && state.opened !== opened) {
      opened = state.opened;
      void look(own, mayReload);
    }
  });
}

async function look(own: string, mayReload: () => boolean): Promise<void> {
  let there: string | null;
  try {
    const response = await fetch(ROOT, { cache: "no-store", credentials: "same-origin" });
    there = scriptOf(new DOMParser().parseFromString(await response.text(), "text/html"));
  } catch {
    return; // the next connection looks again
  }
  if (!there || there === own) return;
  if (mayReload() && sessionStorage.getItem(RELOADED) !== there) {
    sessionStorage.setItem(RELOADED, there);
    location.reload();
  } else useVersion.setState({ isNewer: true });
}

/** The name of the page's script: it has a hash of the whole page. */
function scriptOf(page: Document): string | null {
  const source = page.querySelector('script[type="module"]')?.getAttribute("src") ?? "";
  return /assets\/[\w.-]+\.js$/.exec(source)?.[0] ?? null;
}
