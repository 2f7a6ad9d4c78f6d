import { create } from "zustand";

interface Session {
  /** The session ended while the page was open: everything is covered until the person signed in again. */
  isSignedOut: boolean;
  end: () => void;
}

export const useSession = create<Session>((set) => ({
  isSignedOut: false,
  end: () => set({ isSignedOut: true }),
}));
