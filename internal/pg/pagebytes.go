package pg

import (
	"github.com/jackc/pgx/v5"

	"github.com/eventhook/eventhook"
)

// collectPage collects rows up to the one with which they have more than
// eventhook.MostPageBytes.
func collectPage[T interface{ Bytes() int }](rows pgx.Rows, scan pgx.RowToFunc[T]) (list []T, err error) {
	defer rows.Close()
	for size := 0; size <= eventhook.MostPageBytes && rows.Next(); {
		one, err := scan(rows)
		if err != nil {
			return nil, err
		}
		list = append(list, one)
		size += one.Bytes()
	}
	rows.Close() // reads on, and keeps nothing
	return list, rows.Err()
}
