import { create } from "zustand";

/** Whether the session ended while the page was open: then everything is covered until the person signed in again. */
export const useSession = create<{ isSignedOut: boolean }>(() => ({ isSignedOut: false }));
