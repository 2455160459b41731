//go:build mutants

package mutant

import "os"

// Active is the mistake that this process makes: the one that Variable names.
var Active = Mutant(os.Getenv(Variable))
