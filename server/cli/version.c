/* `shoal version`: what this program is, for bug reports. */
#include "server/base/version.h"
#include "server/cli/commands.h"

#include <stdio.h>

int cli_version(const struct cli_command *self, int argc, char **argv)
{
    bool json = false;
    const struct cli_option options[] = {{.name = "json", .kind = CLI_FLAG, .target = &json}};
    int exit_code;
    if (!cli_options(self, argc, argv, options, 1, NULL, 0, 0, NULL, &exit_code))
        return exit_code;
    if (json)
        return cli_print_json(json_pack("{s:s}", "version", SHOAL_VERSION));
    return puts("shoal " SHOAL_VERSION) < 0 || fflush(stdout) ? CLI_REFUSED : CLI_DONE;
}
