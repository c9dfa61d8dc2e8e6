/* The program `shoal`: the server and its command line in one binary. */
#include "server/cli/cli.h"

int main(int argc, char **argv)
{
    return cli_main(argc, argv);
}
