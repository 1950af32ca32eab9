package configs

import (
	"regexp"
	"slices"
	"strings"

	"github.com/eventhook/eventhook"
)

// variablePrefix begins the names of all variables of this program but databaseVariables.
const variablePrefix = "EVENTHOOK_"

// databaseVariables are the variables whose names do not begin with variablePrefix, by the keys
// of their settings.
var databaseVariables = map[string]string{
	"database_url": "DATABASE_URL", "database.direct_url": "DATABASE_DIRECT_URL", "database.read_url": "DATABASE_READ_URL",
}

// clientVariables lists the variables that commands read and that are not settings of the
// gateway.
var clientVariables = []string{"EVENTHOOK_SERVER", "EVENTHOOK_KEY", "EVENTHOOK_TENANT", "EVENTHOOK_SECRET", "EVENTHOOK_URL",
	"EVENTHOOK_CONFIG"}

// foreignPrefixes begin variables that are not checked: the tests' own, and the variables that
// Kubernetes defines for a service of the name eventhook.
var foreignPrefixes = []string{"EVENTHOOK_TEST_", "EVENTHOOK_SERVICE_", "EVENTHOOK_PORT"}

// serviceLink matches the variables that Kubernetes defines for a service whose name begins
// with eventhook-, such as EVENTHOOK_DB_SERVICE_HOST and EVENTHOOK_DB_PORT_5432_TCP_ADDR.
// Source: https://kubernetes.io/docs/concepts/services-networking/service/#environment-variables
var serviceLink = regexp.MustCompile(`^EVENTHOOK_[A-Z0-9_]+_(SERVICE_HOST|SERVICE_PORT(_[A-Z0-9_]+)?|PORT_[0-9]+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)$`)

// serviceAddress matches the value of the service link EVENTHOOK_<NAME>_PORT.
var serviceAddress = regexp.MustCompile(`^(tcp|udp|sctp)://[^/]+:[0-9]+$`)

// isForeign reports whether a variable with the prefix belongs to the client, the tests or
// Kubernetes.
func isForeign(name, value string) bool {
	hasPrefix := func(prefix string) bool { return strings.HasPrefix(name, prefix) }
	return slices.Contains(clientVariables, name) || slices.ContainsFunc(foreignPrefixes, hasPrefix) || serviceLink.MatchString(name) ||
		strings.HasSuffix(name, "_PORT") && serviceAddress.MatchString(value)
}

// environment sets settings from variables: EVENTHOOK_INGEST_WRITERS sets
// ingest.writers, and those of databaseVariables. An empty variable keeps the
// default. An unknown variable is a fault that names the closest known variable.
func (l *loader) environment(environ []string) {
	keys := l.variables()
	for _, v := range environ {
		name, value, _ := strings.Cut(v, "=")
		key, known := keys[name]
		switch {
		case known && value != "":
			l.set(key, value)
		case !known && strings.HasPrefix(name, variablePrefix) && !isForeign(name, value):
			l.faults.Add(name, "there is no such variable; the closest one is %s", closestVariable(name, keys))
		}
	}
}

// variables returns the keys of the settings by the names of their variables.
func (l *loader) variables() map[string]string {
	keys := map[string]string{}
	for key := range l.settings {
		name, isDatabase := databaseVariables[key]
		if !isDatabase {
			name = variablePrefix + strings.ToUpper(strings.ReplaceAll(key, ".", "_"))
		}
		keys[name] = key
	}
	return keys
}

func closestVariable(name string, keys map[string]string) string {
	names := slices.Clone(clientVariables)
	for known := range keys {
		names = append(names, known)
	}
	return closest(name, names)
}

// closest returns the word with the fewest changes of single characters to text, without the
// prefix of variables. Of several such words it returns the first in alphabetical order.
func closest(text string, words []string) string {
	slices.Sort(words)
	distance := func(word string) int {
		return editDistance(strings.TrimPrefix(text, variablePrefix), strings.TrimPrefix(word, variablePrefix))
	}
	return slices.MinFunc(words, func(a, b string) int { return distance(a) - distance(b) })
}

// editDistance returns the Levenshtein distance of two texts in bytes.
func editDistance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			replace := diagonal
			if a[i] != b[j] {
				replace++
			}
			diagonal = row[j+1]
			row[j+1] = min(replace, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}

// unknownSetting is the fault of a key that is no setting.
func (l *loader) unknownSetting(key string) eventhook.Fault {
	var keys []string
	for known := range l.settings {
		keys = append(keys, known)
	}
	return eventhook.Fault{Location: key, Message: "there is no such setting; the closest one is " + closest(key, keys)}
}
