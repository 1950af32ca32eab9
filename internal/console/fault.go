package console

import (
	"cmp"
	"errors"

	"github.com/eventhook/eventhook/client"
)

// faultOf returns an error of the API as a sentence, for a part of a page that cannot be shown.
func faultOf(err error) string {
	if p, ok := errors.AsType[*client.Problem](err); ok {
		return cmp.Or(p.Detail, p.Title)
	}
	return "The gateway could not read it."
}
