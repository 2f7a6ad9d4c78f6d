import { create } from "zustand";

/** Whether the server has a newer page than this one. */
export const useVersion = create<{ isNewer: boolean }>(() => ({ isNewer: false }));

const RELOADED = "outlast.reloaded";
let mayReload = () => false;

/** Load a newer page by itself, once for each build, if `may` allows it: else the person is asked. */
export function reloadIf(may: () => boolean): void {
  mayReload = may;
}

/** The server told which build of the page it has. */
export function noteBuild(there: string): void {
  const own = document.querySelector('meta[name="outlast-build"]')?.getAttribute("content");
  if (!own || !there || there === own) return;
  if (mayReload() && sessionStorage.getItem(RELOADED) !== there) {
    sessionStorage.setItem(RELOADED, there);
    location.reload();
  } else useVersion.setState({ isNewer: true });
}
