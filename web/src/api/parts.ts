/** The parts of the page that are loaded when they are first needed. */
import { type ComponentType, lazy } from "react";
import { create } from "zustand";
import { ROOT } from "./client";
import { useLive } from "./live";

/** How many parts wait for the server to answer again. */
export const useParts = create<{ waiting: number }>(() => ({ waiting: 0 }));

const RELOADED = "outlast.reloaded for";
const AGAIN_MS = 2000;

type Part<Props> = { default: ComponentType<Props> };

/**
 * Load a part. While the server is away it waits, and tries again by itself. A part that cannot be loaded from a server that
 * answers is of an older page, or the browser remembers that it could not be loaded: then the page is loaded again, once.
 */
export async function loadPart<T>(load: () => Promise<T>): Promise<T> {
  try {
    return await load();
  } catch (error) {
    if (!(await isServerThere())) {
      await serverIsBack();
      return loadPart(load);
    }
    if (sessionStorage.getItem(RELOADED) === String(error)) throw error;
    sessionStorage.setItem(RELOADED, String(error));
    location.reload();
    return new Promise(() => {});
  }
}

/** A component that is loaded as a part. */
export const lazyPart = <Props>(load: () => Promise<Part<Props>>) => lazy(() => loadPart(load));

async function isServerThere(): Promise<boolean> {
  try {
    return (await fetch(`${ROOT}icon.svg`, { cache: "no-store" })).ok;
  } catch {
    return false;
  }
}

async function serverIsBack(): Promise<void> {
  useParts.setState(({ waiting }) => ({ waiting: waiting + 1 }));
  do await isLiveOrLater();
  while (!(await isServerThere()));
  useParts.setState(({ waiting }) => ({ waiting: waiting - 1 }));
}

/** When the page is live again, or after a while. */
function isLiveOrLater(): Promise<void> {
  return new Promise((resolve) => {
    const done = () => {
      clearTimeout(timer);
      stop();
      resolve();
    };
    const timer = setTimeout(done, AGAIN_MS);
    const stop = useLive.subscribe(({ state }) => {
      if (state.is === "live") done();
    });
  });
}
