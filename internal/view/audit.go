package view

// Finding is a result of verifying the journal.
type Finding struct {
	// Level is Failure if something is wrong.
	Level Level
	Text  string
}
