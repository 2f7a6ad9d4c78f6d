/** A line that breaks off, and goes on beside itself. */
export function Logo() {
  return (
    <svg
      width="18"
      height="18"
      viewBox="0 0 18 18"
      fill="none"
      stroke="currentColor"
      strokeWidth="2.25"
      strokeLinecap="round"
      aria-hidden="true"
    >
      <path d="M4.5 1.5v15M4.5 9.5c5 0 8-2 8-6v-2M12.5 10v6.5" />
    </svg>
  );
}
