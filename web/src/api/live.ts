import { create } from "zustand";
import type { State } from "./hub";

interface Live {
  state: State;
  /** How many changes came with the last reconnection. */
  caughtUp: number;
}

/** Whether the page is live. */
export const useLive = create<Live>(() => ({ state: { is: "connecting", opened: 0 }, caughtUp: 0 }));
