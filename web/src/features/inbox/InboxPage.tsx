import { PageHeading } from "@/ui/PageHeading";

export default function InboxPage() {
  return <PageHeading title="Inbox" />;
}
