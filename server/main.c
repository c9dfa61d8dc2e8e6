/* The program `shoal`: the server and its command line in one binary, which is also the limited child that
 * reads models and images from strangers. */
#include "server/cli/cli.h"
#include "server/import/import.h"

int main(int argc, char **argv)
{
    int child = sandbox_child_main(argc, argv);
    return child >= 0 ? child : cli_main(argc, argv);
}
