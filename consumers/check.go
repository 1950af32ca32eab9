package consumers

import "github.com/eventhook/eventhook"

// The values of start_at.
const (
	Oldest = "oldest"
	Newest = "newest"
)

// maxPlace is the maximum length of the name of a queue, a stream or a group in bytes.
const maxPlace = 255

func isText(s string) bool { return eventhook.SanitizeText(s) == s }

// checkPlace checks a required name.
func checkPlace(f *eventhook.Faults, member, text string) {
	if text == "" || len(text) > maxPlace || !isText(text) {
		f.Add(member, "must be 1 to %d bytes of text", maxPlace)
	}
}

func checkStart(f *eventhook.Faults, text string) {
	if text != "" && text != Oldest && text != Newest {
		f.Add("start_at", "%q is not one of %s, %s", eventhook.SanitizeLabel(text), Oldest, Newest)
	}
}
